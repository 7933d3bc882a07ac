"""Temperature: one number that makes probabilities as confident as they should be."""

import numpy as np

from sagpool.fleet.metrics import LEAST, losses
from sagpool.graphs.graphs import Task

# Prior of the log temperature: normal around 0 with this standard deviation. So a few graphs that
# are all predicted correctly do not make the model certain.
PRIOR = 0.5


def with_temperature(task: Task, probabilities: np.ndarray, temperature: float) -> np.ndarray:
    """Probabilities ``[graphs, outputs]`` with their log-odds divided by the temperature."""
    if task == "regression" or temperature == 1:
        return probabilities
    if task == "multitask":
        p = np.clip(probabilities, LEAST, 1 - LEAST)
        return 1 / (1 + np.exp(-np.log(p / (1 - p)) / temperature))
    logs = np.log(np.clip(probabilities, LEAST, None)) / temperature
    shares = np.exp(logs - logs.max(1, keepdims=True))
    return shares / shares.sum(1, keepdims=True)


def fit_temperature(task: Task, probabilities: np.ndarray, truth: np.ndarray) -> float:
    """The temperature with the lowest log loss on these graphs, drawn towards 1 by `PRIOR`.

    Args:
        task: task of the model
        probabilities: ``[graphs, outputs]`` from a model that did not see the graphs
        truth: ``[graphs]`` classes, or ``[graphs, tasks]`` of 0, 1 and NaN
    """
    if task == "regression":
        return 1.0
    from scipy.optimize import minimize_scalar  # slow to import

    def loss(log_temperature: float) -> float:
        p = with_temperature(task, probabilities, float(np.exp(log_temperature)))
        return float(np.nansum(losses(task, p, truth)) + (log_temperature / PRIOR) ** 2 / 2)

    found = np.exp(minimize_scalar(loss, bounds=(-2, 3), method="bounded").x)
    return float(f"{found:.6g}")  # further digits are noise
