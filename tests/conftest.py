"""What all tests share: the kernels run where there is no GPU, and a slow machine fails nothing."""

import os

import hypothesis
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # read once, when triton is first imported

torch.set_num_threads(1)  # the tensors of tests are small: threads would only wait for each other

hypothesis.settings.register_profile("nutime", deadline=None)
hypothesis.settings.load_profile("nutime")
