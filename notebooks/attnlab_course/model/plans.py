"""What is trained on what: the plans of the models in the package."""

import itertools
from dataclasses import dataclass, replace

from attnlab_course.model.batches import Phase
from attnlab_course.model.config import Config

BASE = Config(layers=4, heads=4, kv_heads=4, d=32, width=128, hidden=352)
TWIN = Config(layers=4, heads=4, kv_heads=4, d=24, width=96, hidden=256)


@dataclass(frozen=True)
class TrainingPlan:
    """What is trained, and what it reads one phase after the other."""

    config: Config
    phases: tuple[Phase, ...]
    rate: float = 2.5e-3
    seed: int = 0

    @property
    def steps(self) -> int:
        """Steps of all phases."""
        return sum(phase.steps for phase in self.phases)

    def phase(self, step: int) -> Phase:
        """The phase of a step."""
        ends = itertools.accumulate(phase.steps for phase in self.phases)
        return next(phase for phase, end in zip(self.phases, ends) if step < end)


# Short sequences full of spans that return make heads that copy form within some 600 steps; from long ones, of which a
# part has such spans, none had formed after as many. The twins are smaller, learn plain text alone, and for less time.
PLANS = {
    "base": TrainingPlan(BASE, (
        Phase(2000),
        Phase(800, returns=1.0, context=128, sequences=16, span=(8, 33), gap=16),
        Phase(3200, returns=0.3),
    )),
    "no_first": TrainingPlan(replace(TWIN, first=False), (Phase(2000),)),
    "learned_sink": TrainingPlan(replace(TWIN, sink=True), (Phase(2000),)),
}  # fmt: skip
