"""Lesson 21, ★: whose keys a device holds at a step of the ring."""

from attnlab_course.checker.exercise import Case, Exercise, Mistake, but


def holder(device: int, step: int, devices: int, ahead: int) -> int:
    """Whose block of keys ``device`` holds after ``step`` sends, if device d sends to d + ``ahead``, around the ring.

    ``ahead`` is negative where they send backward.
    """
    return (device - step * ahead) % devices  # eq. 21.1, where ahead is 1


def cases() -> list[Case]:
    """At the start, after one send, around the ring, after a whole turn, and after more; by one, by more, backward."""
    calls = [
        (0, 0, 1, 1), (2, 0, 4, 3), (1, 1, 3, 1), (2, 1, 3, 1), (0, 1, 3, 1), (3, 2, 4, 1), (1, 3, 4, 1), (1, 1, 5, 2),
        (0, 2, 7, 3), (1, 1, 3, -1), (4, 2, 5, -2), (1, 4, 4, 1), (0, 127, 128, 1), (1, 9, 4, 3), (0, 140, 49, 5),
    ]
    label = "device {0} of {2} after {1} send{3} to d + {4}"
    return [Case(label.format(d, t, n, "s" * (t != 1), a).replace("+ -", "− "), (d, t, n, a)) for d, t, n, a in calls]


RING = "(device - step * ahead) % devices"

EXERCISE = Exercise(
    lesson="21", stars=1, reference=holder, cases=cases,
    hints=(
        "At step 0 every device holds its own block. What does device 2 receive first, and from whom?",
        "A block moves `ahead` devices forward at each send. So where did the block that's here now begin?",
        "Count back from device 0 and you arrive at the last device: % does it in Python.",
    ),
    without={"devices": "Your number leaves the ring: before device 0 comes the last one. Take it modulo the number "
                        "of devices, eq. 21.1.",
             "ahead": "You count one device per send, as in eq. 21.1. These send `ahead` places further on."},
    mistakes=(
        Mistake("You count forward. What arrives comes from behind: section 1.",
                but(RING, "(device + step * ahead) % devices"), but(RING, "(device + step) % devices")),
        Mistake("Your number comes back positive, on the wrong side: −1 is the last device, not device 1. Use %, not "
                "abs: eq. 21.1.",
                but(RING, "abs(device - step * ahead) % devices"), but(RING, "abs(device - step * ahead)")),
        Mistake("That's the device the keys go to next, or come from. We want the one where the block began: eq. 21.1.",
                but(RING, "(device + ahead) % devices"), but(RING, "(device - ahead) % devices")),
    ),
)
