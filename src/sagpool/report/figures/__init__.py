"""The figures of the report: each is a function of rows."""
