"""The server beside the model alone: both write the same texts, and what is printed."""

from attnlab_course import model
from attnlab_course.bench import __main__ as command
from attnlab_course.bench import serve


def test_both_ways_write_the_same():
    """In float64, where nothing ties."""
    calls = serve.prepare_texts(model.load(dtype="float64"), 3)
    found = [call() for call in calls.values()]
    assert found[0] == found[1]
    assert {len(text) for text in found[0]} == {serve.NEW}


def test_the_table(capsys, monkeypatch):
    monkeypatch.setattr(serve, "BATCHES", (1, 2))
    monkeypatch.setattr(serve, "NEW", 3)
    command.main(["--serve", "--rounds", "1"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.count("|") for line in lines if line.startswith("|")] == [5] * 4
    assert [line.split()[1] for line in lines if line[2:3].isdigit()] == ["1", "2"]
