"""What a machine counted, as a table."""

from attnlab_course.instruments.machine.machine import Machine


def report(machine: Machine) -> str:
    """Elements loaded, stored and filled, by array and in all; bytes moved; the most SRAM has held."""
    columns = [machine.loads, machine.stores, machine.fills]
    names = sorted(set().union(*columns), key=lambda name: (-sum(column[name] for column in columns), name))
    rows = [(name, *(column[name] for column in columns)) for name in names]
    rows.append(("all", *(column.total() for column in columns)))
    lines = [f"{'elements':8}{'loads':>15}{'stores':>15}{'fills':>15}"]
    lines += [f"{name:8}" + "".join(f"{count:>15,}" for count in counts) for name, *counts in rows]
    capacity, kind = machine.sram.capacity, "strict" if machine.sram.strict else "nominal"
    of = "" if capacity is None else f" of {capacity:,} ({kind})"
    lines.append(f"{machine.bytes:,} bytes loaded and stored; SRAM held at most {machine.peak:,} bytes{of}")
    return "\n".join(lines)
