"""A server for a model that `sagpool export` wrote: uvicorn app:app (see docs/serving.md)."""

import json
import os

import numpy as np
import onnxruntime
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel, Field

session = onnxruntime.InferenceSession(os.environ["SAGPOOL_MODEL"])
about = {key: json.loads(v) for key, v in session.get_modelmeta().custom_metadata_map.items()}
wanted = {one.name: one.type for one in session.get_inputs()}
answers = [one.name for one in session.get_outputs()]
app = FastAPI(title="graph classifier")


class Graph(BaseModel):
    smiles: str | None = Field(None, max_length=5000)
    labels: list[str] = Field([], max_length=100_000)
    features: list[list[float]] = Field([], max_length=100_000)
    edges: list[tuple[int, int]] = Field([], max_length=1_000_000)


def inputs_of(graph: Graph) -> dict[str, list]:
    if graph.smiles is None:
        nodes = len(graph.labels) or len(graph.features)
        return {"labels": graph.labels, "features": graph.features, "edges": graph.edges} | {
            "sizes": [nodes]
        }
    from sagpool.export.molecules import molecule_inputs  # atoms and bonds as in training

    return molecule_inputs(graph.smiles)


@app.post("/predict")
def predict(graph: Graph) -> dict:
    try:
        given = inputs_of(graph)
        types = {"tensor(string)": object, "tensor(float)": np.float32, "tensor(int64)": np.int64}
        arrays = {name: np.array(given[name], types[kind]) for name, kind in wanted.items()}
        arrays["edges"] = arrays["edges"].reshape(-1, 2)
        out = dict(zip(answers, session.run(None, arrays), strict=True))
        p = out["probabilities"][0].astype(float)
        if not np.isfinite(p).all():
            raise ValueError("an edge names a node that is not there")
    except Exception as error:  # what a client sent does not fit the model
        raise HTTPException(422, f"The graph does not fit the model: {error}"[:300]) from None
    best = int(out["predicted"][0])
    possible = out.get("prediction_set")
    return {
        "class": about["names"][best],
        "probabilities": dict(zip(about["names"], p.round(6).tolist(), strict=True)),
        "possible": None if possible is None else np.array(about["names"])[possible[0]].tolist(),
        "unlike": bool(out["unlike"][0]) if "unlike" in out else None,
        "unknown_labels": int(out["unknown"][0]) if "unknown" in out else 0,
        "kept": [out[name].tolist() for name in answers if name.startswith("kept_")],
    }
