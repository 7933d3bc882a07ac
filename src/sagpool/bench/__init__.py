"""The bench: experiments, the run store, searches, statistics, and where trainings are done."""
