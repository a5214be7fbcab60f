"""What moves on the pages moves, by mouse and by keyboard, and ends where its trace ends.

A trace is what Python counted: tests/course/plots sees to that.
"""

import json

import pytest
from attnlab_course.instruments import machine
from attnlab_course.plots import moving
from attnlab_course.plots.moving import roof

from attnlab import costs
from attnlab.measure import binary

LESSONS = {
    "walk": ("08_tiled_attention", "10_tiled_backward"),
    "play": ("03_online_softmax", "09_counting_bytes", "13_fast_kernels", "20_serving",
             "21_ring_and_striped_attention"),
}


@pytest.fixture
def open_page(page, address):
    """A function that opens a page and finds a figure on it; the page complains of nothing."""
    found = []
    page.on("pageerror", lambda error: found.append(str(error)))
    page.on("console", lambda message: found.append(message.text) if message.type == "error" else None)

    def opened(name, which=".attnlab-moving"):
        page.goto(f"{address}/{name}.html", wait_until="load")
        return page.locator(which).last

    yield opened
    assert found == []


def runs(figure):
    """The name of each run that can be chosen, chosen, and what the script plays."""
    traces = json.loads(figure.locator('script[type="application/json"]').text_content())
    for name, trace in traces.items():
        if len(traces) > 1:
            figure.locator("select").select_option(name)
        figure.locator("input").focus()
        yield name, trace


@pytest.mark.parametrize("lesson", LESSONS["walk"])
def test_a_walk_ends_at_the_counts(page, open_page, lesson):
    figure = open_page(lesson)
    for _, (sentence, _, *frames) in runs(figure):
        page.keyboard.press("End")
        assert figure.locator(".words").inner_text() == sentence.replace("{}", "{:,}").format(*frames[-1][0])
        page.keyboard.press("Home")
        assert figure.locator(".words").inner_text().startswith(f"visit 1 of {len(frames)} ")


def test_a_tile_moves_while_it_plays(page, open_page):
    figure = open_page("08_tiled_attention")
    figure.locator("select").select_option("tiles of 2 by 4")
    tile, words = figure.locator(".frame:visible .scores"), figure.locator(".words")
    before = tile.bounding_box()
    figure.get_by_role("button").click()
    page.wait_for_function("element => !element.textContent.startsWith('visit 1 ')", arg=words.element_handle())
    assert tile.bounding_box() != before
    figure.get_by_role("button").click()
    figure.locator("input").focus()
    page.keyboard.press("End")
    walked = moving.run(machine.flash_forward, 7, 10, block_q=2, block_k=4)
    assert figure.locator(".frame:visible .tile.done").count() == len(walked.visits) - 1


@pytest.mark.parametrize("lesson", LESSONS["play"])
def test_what_is_played_begins_and_ends_as_it_was_drawn(page, open_page, lesson):
    figure = open_page(lesson, ".attnlab-moving:not(.band *)")
    for _, (text, names, *steps) in runs(figure):
        for key, last in (("End", len(steps)), ("Home", 1)):
            page.keyboard.press(key)
            said = text.replace("{}", "%s") % tuple(f"{x:,.10g}" for x in steps[last - 1][0])
            assert figure.locator(".words").inner_text() == said
            drawn = {place: value for _, row in steps[:last] for place, value in zip(row[::2], row[1::2])}
            marks = figure.locator(".frame:visible svg > *")
            for place, value in [*drawn.items()][-20:]:
                mark, name = marks.nth(place // len(names)), names[place % len(names)]
                shown = mark.text_content() if name == "text" else mark.get_attribute(name)
                assert shown == f"{value}".removesuffix(".0")


@pytest.mark.parametrize("motion", ["no-preference", "reduce"])
def test_the_first_page_moves_unless_the_reader_wants_less_motion(page, address, motion):
    page.emulate_media(reduced_motion=motion)
    page.goto(f"{address}/index.html", wait_until="load")
    button = page.locator(".band .attnlab-moving button")
    assert ("pause" if motion == "no-preference" else "play") in button.inner_text()


def test_the_first_page_says_what_both_hold_and_move(page, address):
    page.goto(f"{address}/index.html", wait_until="load")
    slider, cells = page.locator(".band .scale input"), page.locator(".band td")
    slider.focus()
    page.keyboard.press("End")
    assert page.locator(".band .scale output").inner_text() == f"{2**20:,}"
    held = [binary(4 * costs.extra_elements(method, 2**20, 2**20, 64, 64), 2) for method in ("naive", "tiled")]
    assert [cells.nth(0).inner_text(), cells.nth(2).inner_text()] == held


def test_without_scripts_the_first_frame_stays(browser, address):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{address}/08_tiled_attention.html", wait_until="load")
    assert page.locator(".attnlab-moving .frame:visible .scores").count() == 1
    context.close()


def test_a_question_answers_for_the_chosen_option(page, address):
    page.goto(f"{address}/questions/08.html", wait_until="load")
    options, answer = page.locator(".options").first.locator("li"), page.locator("article details").first
    options.nth(1).focus()
    page.keyboard.press("Enter")
    assert "wrong" in options.nth(1).get_attribute("class")
    assert answer.locator(".chosen").inner_text().startswith("If you chose B:")
    radios = options.and_(page.get_by_role("radio"))
    assert [radios.nth(at).is_checked() for at in range(radios.count())] == [False, True, False, False]
    options.nth(3).click()
    assert "right" in options.nth(3).get_attribute("class")
    assert answer.locator(".chosen").count() == 0


@pytest.mark.parametrize(("name", "rows", "words", "most"), [
    ("glossary", "article dt", "learned sink", 5),
    ("reproductions", "article .table-wrapper tbody tr", "lesson 16 refuted", 9),
    ("recipes", "article details tbody tr", "softmax_scale", 2),
])
def test_a_page_is_filtered(page, address, name, rows, words, most):
    page.goto(f"{address}/{name}.html", wait_until="load")
    page.locator("input.filter").fill(words)
    shown = page.locator(f"{rows}:visible").all_inner_texts()
    assert any(words.split()[-1] in row for row in shown)
    assert len(shown) < most < page.locator(rows).count()
    page.locator("input.filter").fill("nothing has these words")
    assert page.locator("output.count").inner_text().startswith("0 of ")
    assert page.locator(f"{rows}:visible, article .table-wrapper:has(tbody tr[hidden]):visible").count() == 0


def test_the_table_of_libraries_is_filtered(page, address):
    page.goto(f"{address}/libraries.html", wait_until="load")
    rows = page.locator(".conventions tbody tr")
    page.get_by_label("h mod Hk").check()
    shown = page.locator(".conventions tbody tr:visible").all_inner_texts()
    assert 1 < len(shown) < rows.count()
    assert all("h mod Hk" in row for row in shown)


def test_the_masks_of_lesson_11_end_at_the_counts(page, open_page):
    figure = open_page("11_block_sparse_attention")
    words = figure.locator("output")
    first, second = moving.mask.visits(moving.mask.masks()["causal"], 4)[:2]
    assert words.inner_text() == f"visit 1 of 36, a partial tile · moved: {first.bytes:,} bytes"
    figure.locator("input").focus()
    page.keyboard.press("ArrowRight")
    assert words.inner_text() == f"visit 2 of 36, a whole tile · moved: {second.bytes:,} bytes"
    for (name, mask), size in zip(moving.mask.masks().items(), (2, 4, 8) * 9):
        figure.get_by_label("mask", exact=True).select_option(name)
        figure.get_by_label("size of the tiles").select_option(f"tiles of {size} by {size}")
        figure.locator("input").focus()
        page.keyboard.press("End")
        visits, dense = moving.mask.visits(mask, size), (32 // size) ** 2
        count = len(visits)
        assert words.inner_text().startswith(f"visit {count} of {count}, ")
        assert words.inner_text().endswith(f"moved: {visits[-1].bytes:,} bytes")
        assert f"{dense - count} of {dense} tiles skipped" in figure.locator(".total").inner_text()
        assert figure.locator(".parts .done").count() == count


def test_the_points_of_lesson_07_are_those_of_the_costs(page, open_page):
    figure = open_page("07_memory_hierarchy_and_intensity")
    words, slider, point = figure.locator("output"), figure.locator("input"), figure.locator(".point.hbm")
    assert words.inner_text() == "Compute-bound: arithmetic 110 µs, L2 37.8 µs, HBM 5.39 µs"
    bounds = ("Compute-bound", "Bound by L2", "Bound by HBM")
    for name, d in zip(roof.METHODS, roof.HEADS * 9):
        figure.get_by_label("algorithm").select_option(name)
        figure.get_by_label("head size").select_option(f"D = {d}")
        for rows in roof.tiled(name):
            if rows:
                figure.get_by_label("tile").select_option(f"{rows} stay, 64 pass")
            slider.focus()
            for key, n in (("Home", roof.LENGTHS[0]), ("End", roof.LENGTHS[-1])):
                page.keyboard.press(key)
                place = roof.place(name, n, d, rows)
                assert words.inner_text().startswith(bounds[place.bound])
                assert point.get_attribute("cx") == str(roof.points(place)[0])
                assert figure.locator(".ring").get_attribute("r") == ("10" if place.bound else "0")
                assert slider.get_attribute("aria-valuetext") == f"{n:,} tokens"
