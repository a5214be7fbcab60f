"""What moves on the pages moves, by mouse and by keyboard, and ends where the machine's counts end."""

import pytest
from attnlab_course import model
from attnlab_course.instruments import machine
from attnlab_course.plots import moving
from attnlab_course.plots.moving import ring, roof, scales, waves
from attnlab_course.serve import Engine

from attnlab import costs
from attnlab.measure import binary


def last_words(walked):
    """What a walk says after its last visit."""
    count, (*_, last) = len(walked.visits), walked.visits
    moved = f"moved: {last.loaded:,} numbers in, {last.stored:,} out"
    return f"visit {count} of {count} · {moved} · held: at most {walked.held:,}"


def test_the_walk_of_lesson_08_ends_at_the_counts(page, address):
    page.goto(f"{address}/08_tiled_attention.html", wait_until="load")
    figure = page.locator(".attnlab-moving").first
    words, slider = figure.locator(".words"), figure.locator("input")
    assert words.inner_text().startswith("visit 1 of 12 ")
    slider.focus()
    page.keyboard.press("End")
    walked = moving.run(machine.flash2_forward, 7, 10, block_q=2, block_k=4)
    assert words.inner_text() == last_words(walked)
    assert figure.locator(".frame:visible .tile.done").count() == 11
    figure.locator("select").select_option("tiles of 7 by 10")
    assert words.inner_text() == last_words(moving.run(machine.flash2_forward, 7, 10, block_q=7, block_k=10))
    figure.locator("select").select_option("tiles of 2 by 4")
    tile = figure.locator(".frame:visible .scores")
    before = tile.bounding_box()
    figure.get_by_role("button").click()
    page.wait_for_function("element => !element.textContent.startsWith('visit 1 ')", arg=words.element_handle())
    assert tile.bounding_box() != before
    figure.get_by_role("button").click()


@pytest.fixture
def errors(page):
    """What the page complains about: nothing, when a test is over."""
    found = []
    page.on("pageerror", lambda error: found.append(str(error)))
    page.on("console", lambda message: found.append(message.text) if message.type == "error" else None)
    yield found
    assert found == []


@pytest.mark.usefixtures("errors")
def test_the_walks_of_lesson_10_end_at_the_counts_of_both_passes(page, address):
    page.goto(f"{address}/10_tiled_backward.html", wait_until="load")
    figure = page.locator(".attnlab-moving")
    n, m, d, passes = 7, 10, 8, 3
    runs = (
        ("backward", machine.flash_backward, 4 * m * d + passes * (5 * n * d + 2 * n)),  # (10.6)
        ("forward", machine.flash_forward, 2 * m * d + passes * (3 * n * d + 4 * n)),  # (9.4)
    )
    for name, program, moved in runs:
        figure.locator("select").select_option(name)
        figure.locator("input").focus()
        page.keyboard.press("End")
        walked = moving.run(program, n, m, gradient=name == "backward", block_q=2, block_k=4)
        assert figure.locator(".words").inner_text() == last_words(walked)
        assert walked.visits[-1].loaded + walked.visits[-1].stored == moved


@pytest.mark.usefixtures("errors")
def test_the_pool_of_lesson_20_ends_at_the_counts_of_the_engine(page, address):
    page.goto(f"{address}/20_serving.html", wait_until="load")
    figure = page.locator(".attnlab-moving")
    words, slider, waiting = figure.locator(".words"), figure.locator("input"), figure.get_by_text("waits")
    assert words.inner_text().startswith("step 1 of 78 · 8 of 8 blocks held")
    assert waiting.count() == 2
    slider.focus()
    page.keyboard.press("End")
    engine = Engine(model.load(), 8, 8, 64)
    prompts = "def __init__(self", "import ", "    return ", "class Error(", "for i in range(", '"""Return '
    requests = [engine.submit(prompt, 24) for prompt in prompts]
    engine.run()
    *_, last = engine.trace
    fed, found = (sum(getattr(record, name) for record in engine.trace) for name in ("tokens", "reused"))
    empty = 8 * last.blocks - last.filled
    assert words.inner_text() == (
        f"step {engine.steps} of {engine.steps} · {last.blocks} of 8 blocks held, {empty} slots in them empty · "
        f"{fed} tokens fed, {sum(len(request.texts[0]) for request in requests)} made · "
        f"texts stopped: {sum(request.preemptions for request in requests)} · tokens found again: {found}"
    )
    assert waiting.count() == 0
    page.keyboard.press("Home")
    assert waiting.count() == 2
    figure.locator("select").select_option("four samples of one prompt")
    assert words.inner_text().startswith("step 1 of 6 ")
    figure.get_by_role("button").click()
    page.wait_for_function("element => element.textContent.startsWith('step 2 ')", arg=words.element_handle())
    assert figure.get_by_text("0, 1, 2, 3").count() == 1


@pytest.mark.usefixtures("errors")
@pytest.mark.parametrize("layout", ["contiguous", "striped", "zigzag"])
def test_the_ring_of_lesson_21_ends_at_the_counts_of_the_cluster(page, address, layout):
    page.goto(f"{address}/21_ring_and_striped_attention.html", wait_until="load")
    figure = page.locator(".attnlab-moving")
    words, slider = figure.locator(".words"), figure.locator("input")
    figure.locator("select").select_option(layout)
    shown = figure.locator(".frame:visible")
    assert words.inner_text().startswith("step 1 of 4 · 0 numbers sent")
    idle, block = shown.get_by_text("idle"), shown.locator(".hop").first
    assert idle.count() == 0
    before = block.bounding_box()
    slider.focus()
    page.keyboard.press("End")
    step, sent, scores, more = ring.numbers(ring.turn(8, layout))[-1]
    counted = f"{sent:,} numbers sent · {scores} scores computed · idle: time enough for {more} more"
    assert words.inner_text() == f"step {step} of {step} · {counted}"
    assert idle.count() == (3 if layout == "contiguous" else 0)
    moved = "([before, block]) => block.getBoundingClientRect().x < before.x"
    page.wait_for_function(moved, arg=[before, block.element_handle()])


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
    options.nth(3).click()
    assert "right" in options.nth(3).get_attribute("class")
    assert answer.locator(".chosen").count() == 0


def test_the_glossary_is_filtered(page, address):
    page.goto(f"{address}/glossary.html", wait_until="load")
    terms = page.locator("article dt:visible")
    count = terms.count()
    page.locator("input.filter").fill("learned sink")
    assert 0 < terms.count() < 5 < count


def test_reproductions_begin_with_their_table_and_are_filtered(page, address):
    page.goto(f"{address}/reproductions.html", wait_until="load")
    assert page.locator("article h2").first.inner_text().startswith("Everything at a glance")
    rows = page.locator("article .output tbody tr:visible")
    count = rows.count()
    page.locator("input.filter").fill("lesson 16 refuted")
    found = [row for row in rows.all_inner_texts() if "refuted" in row]
    assert 0 < len(found) < count / 5


@pytest.mark.usefixtures("errors")
def test_the_scales_of_lesson_03_end_at_the_sum_unless_the_factor_is_forgotten(page, address):
    page.goto(f"{address}/03_online_softmax.html", wait_until="load")
    figure = page.locator(".attnlab-moving")
    ends = {"fold": scales.fold(), "tree": scales.tree(), "a fold that forgets the factor": scales.fold(forget=True)}
    for name, states in ends.items():
        figure.locator("select").select_option(name)
        figure.locator("input").focus()
        page.keyboard.press("End")
        assert figure.locator(".words").inner_text() == f"step {len(states)} of {len(states)} · parts: 1"
        assert figure.locator(".frame:visible").get_by_text(f"m 3, l {states[-1][0].total:.2f}").count() == 1
    figure.locator("select").select_option("scan")
    figure.locator("input").focus()
    page.keyboard.press("End")
    assert figure.locator(".words").inner_text() == "step 6 of 6 · prefixes: 8"
    for (prefix,) in scales.fold():
        assert figure.locator(".frame:visible").get_by_text(f"l {prefix.total:.2f}", exact=True).count() >= 1


@pytest.mark.usefixtures("errors")
@pytest.mark.parametrize("name", waves.orders(waves.HEADS, waves.TILES))
def test_the_waves_of_lesson_09_end_at_the_counts(page, address, name):
    page.goto(f"{address}/09_counting_bytes.html", wait_until="load")
    figure = page.locator(".attnlab-moving").last
    figure.locator("select").select_option(name)
    figure.locator("input").focus()
    page.keyboard.press("End")
    last = waves.play(waves.orders(waves.HEADS, waves.TILES)[name], waves.KEYS, waves.AT_ONCE, waves.ROOM)[-1]
    counted = f"blocks from L2: {last.asked} · from HBM: {sum(last.crossed.values())}"
    assert figure.locator(".words").inner_text().endswith(counted)


@pytest.mark.usefixtures("errors")
def test_the_plans_of_lesson_13_end_with_their_shares(page, address):
    page.goto(f"{address}/13_fast_kernels.html", wait_until="load")
    figure = page.locator(".attnlab-moving")
    busy = figure.get_by_text("tensor cores busy")
    assert all(text.endswith("0 of 4 tiles, tensor cores busy 0%") for text in busy.all_text_contents())
    figure.locator("input").focus()
    page.keyboard.press("End")
    shares = [text.split(": ")[1] for text in busy.all_text_contents()]
    assert shares == [f"4 of 4 tiles, tensor cores busy {share}" for share in ("67%", "100%", "100%")]


def complaints(page):
    """What a page complains of from now on."""
    found = []
    page.on("console", lambda message: found.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: found.append(str(error)))
    return found


def test_the_masks_of_lesson_11_end_at_the_counts(page, address):
    errors = complaints(page)
    page.goto(f"{address}/11_block_sparse_attention.html", wait_until="load")
    figure = page.locator(".attnlab-moving").first
    words, slider = figure.locator("output"), figure.locator("input")
    first, second = moving.mask.visits(moving.mask.masks()["causal"], 4)[:2]
    assert words.inner_text() == f"visit 1 of 36, a partial tile · moved: {first.bytes:,} bytes"
    slider.focus()
    page.keyboard.press("ArrowRight")
    assert words.inner_text() == f"visit 2 of 36, a whole tile · moved: {second.bytes:,} bytes"
    for name, mask in moving.mask.masks().items():
        figure.get_by_label("mask", exact=True).select_option(name)
        for size in (2, 4, 8):
            figure.get_by_label("size of the tiles").select_option(f"tiles of {size} by {size}")
            slider.focus()
            page.keyboard.press("End")
            visits, dense = moving.mask.visits(mask, size), (32 // size) ** 2
            count = len(visits)
            assert words.inner_text().startswith(f"visit {count} of {count}, ")
            assert words.inner_text().endswith(f"moved: {visits[-1].bytes:,} bytes")
            assert f"{dense - count} of {dense} tiles skipped" in figure.locator(".total").inner_text()
            assert figure.locator(".parts .done").count() == count
    assert errors == []


def test_the_points_of_lesson_07_are_those_of_the_costs(page, address):
    errors = complaints(page)
    page.goto(f"{address}/07_memory_hierarchy_and_intensity.html", wait_until="load")
    figure = page.locator(".attnlab-moving").first
    words, slider, point = figure.locator("output"), figure.locator("input"), figure.locator(".point.hbm")
    assert words.inner_text() == "Compute-bound: arithmetic 110 µs, L2 37.8 µs, HBM 5.39 µs"
    bounds = ("Compute-bound", "Bound by L2", "Bound by HBM")
    for name in roof.METHODS:
        figure.get_by_label("algorithm").select_option(name)
        for d in roof.HEADS:
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
                    assert slider.get_attribute("aria-valuetext") == f"{n:,} tokens"
    assert errors == []
