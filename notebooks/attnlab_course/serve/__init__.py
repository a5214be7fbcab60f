"""A server: many requests, one model, one pool of pages, and a budget of tokens a step.

    step:   who is fed what (schedule)  ->  one forward pass (Runner)  ->  a token for each that has been fed to its end

A request is its prompt, its options and its seed. What it holds in the pool is a cache of what its tokens imply, so it
may be taken away and computed again. Requests join and leave between steps (continuous batching); a prompt is fed in
chunks beside the decoding of others; what two sequences have in common from the start, they share.

    Engine, Request, Sequence     submit, step, run, cancel; what became of a request, token by token
    schedule, Plan, Chunk         who is fed in a step, in integers; any function of its signature may take its place
    Runner                        a plan as one forward pass of attnlab_course.model, in the library of its parameters
    uniform, probabilities, choose        draws by (seed, sample, position)
    best_continuations            one step of beam search
    StepRecord, Timestamp         the trace of a step, and the time of a token
    accept, accept_keyed, prompt_lookup, race     guess some tokens, and let one pass say which to keep
    lookup, ModelDraft, in_bits   who guesses for the engine: the text so far, or a cheaper model

The text of a request depends on its prompt, options and seed alone: not on who shares the batch, on the size of
blocks, on their number or on preemption. Logits do vary by rounding with the batch around a row, so where two tokens
tie to within rounding, or a draw falls that near the border between them, either may come. Derived in notebook 20.
Sources: Yu et al. 2022, "Orca" (continuous batching); Kwon et al. 2023, "PagedAttention" (pages, preemption, sharing);
Agrawal et al. 2024, "Sarathi-Serve" (chunks of prompts beside decoding).
"""

from attnlab_course.serve.beam import best_continuations
from attnlab_course.serve.drafts import ModelDraft, in_bits, lookup
from attnlab_course.serve.engine import Engine
from attnlab_course.serve.request import Request, Sequence, Timestamp, blocks_needed
from attnlab_course.serve.runner import Runner
from attnlab_course.serve.sampling import choose, probabilities, uniform
from attnlab_course.serve.scheduler import Chunk, Plan, num_unfed_tokens, schedule
from attnlab_course.serve.speculative import accept, accept_keyed, prompt_lookup, race
from attnlab_course.serve.trace import StepRecord

__all__ = [
    "Chunk", "Engine", "ModelDraft", "Plan", "Request", "Runner", "Sequence", "StepRecord", "Timestamp", "accept",
    "accept_keyed", "best_continuations", "blocks_needed", "choose", "in_bits", "lookup", "num_unfed_tokens",
    "probabilities", "prompt_lookup", "race", "schedule", "uniform",
]  # fmt: skip
