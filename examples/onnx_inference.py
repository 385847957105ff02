"""Run an exported model with onnxruntime and numpy; neither nutime nor torch is needed.

    nutime export MODEL_DIR -o model.onnx
    python examples/onnx_inference.py model.onnx

MODEL_DIR is a folder written by ``save`` or ``nutime fit``, or the name of shipped weights (nutime-small).
"""

import json
import sys

import numpy as np
import onnxruntime

np.set_printoptions(precision=3, threshold=20)
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
about = json.loads(session.get_modelmeta().custom_metadata_map["nutime"])
print(about["contract"])

channels = 1 if about["channels"] == "any" else about["channels"]
series = np.full((2, channels, 200), np.nan, dtype=np.float32)  # NaN pads the shorter one
series[0] = np.sin(np.linspace(0, 60, 200))
series[1, :, :120] = 1000 + 50 * np.sin(np.linspace(0, 9, 120))

for name, values in zip(about["outputs"], session.run(about["outputs"], {"series": series}), strict=True):
    labels = about.get("classes") if name == "label" else None
    print(name, [labels[code] for code in values] if labels else values)
