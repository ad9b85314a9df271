"""The page in a real browser, over a folder of lessons and a run, served by the command in a process of its own."""

from __future__ import annotations

import re
import signal
from urllib.parse import quote

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from accessibility import problems
from page_parts import ATTACK, attack, beside, play, served, with_lessons

from jeeves_reflexion import Provenance, Reflection, Task


def rows(page) -> list[str]:
    return page.locator("article h2, article h3").all_inner_texts()


async def teach(lessons, text: str, task: str = "water the garden"):
    return await lessons.record(Task(task), Reflection(text), provenance=Provenance("other", 1, 0.0))


async def all_lessons(lessons) -> dict[str, str]:
    return {each.text: each.state for each in (await lessons.list()).lessons}


def test_lessons_are_found_by_meaning_and_filtered(page):
    page.get_by_label("Search by meaning").fill("a clean mug for the desk")
    page.get_by_role("button", name="Show").click()
    assert rows(page)[0] == "Wash the mug in the sink first."
    near = [float(each.split()[1]) for each in page.locator("article .near").all_inner_texts()]
    assert near == sorted(near, reverse=True)
    page.get_by_label("Tool").fill("look")
    page.get_by_label("Search by meaning").press("Enter")
    page.wait_for_url("**tool=look**")
    assert set(rows(page)) == {"Wash the mug in the sink first.", "Take the knife before the bread."}
    page.goto(f"{page.url.partition('?')[0]}?state=proposed&outcome=failed")
    assert "Ask before you water." in rows(page)
    assert "Write dates year first." not in rows(page)
    page.get_by_role("link", name="Clear").click()
    page.get_by_role("link", name="office").click()
    assert rows(page) == ["Write dates year first."]
    page.get_by_role("link", name="Write dates").click()
    page.get_by_label("Would it be recalled for this task?").fill("slice the bread")
    page.get_by_role("button", name="Ask").click()
    page.get_by_text("It would not be recalled").wait_for()
    assert rows(page)[0] == "Take the knife before the bread."


def test_what_waits_is_reviewed(page, server):
    page.get_by_role("link", name="Review").click()
    page.get_by_role("button", name="Approve: Fill the can").click()
    page.get_by_text("The lesson is approved.").wait_for()
    waiting = page.locator("article", has_text="Water the plant in the evening")
    waiting.get_by_label("Reason").fill("not in winter")
    waiting.get_by_role("button", name="Reject").click()
    page.get_by_text("The lesson is rejected.").wait_for()
    page.get_by_role("link", name="Ignore all previous").click()
    page.get_by_text("In quarantine since").wait_for()
    assert page.get_by_label("Would it be recalled").count() == 0  # it is no lesson yet
    page.get_by_role("button", name="Reject").click()
    page.get_by_text("The lesson is rejected.").wait_for()
    assert "In quarantine" not in page.inner_text("main")
    states = server.lessons(all_lessons)
    assert states["Fill the can at the tap."] == "active"
    assert states["Water the plant in the evening."] == "retired"


def test_a_lesson_is_edited_merged_retired_and_rolled_back(page):
    page.get_by_role("link", name="Dry the cup").click()
    page.locator("textarea").fill("It was wrong. The cup too.")
    page.get_by_role("button", name="Save the text").click()
    page.get_by_role("alert").wait_for()  # no lesson: the words stay to be mended
    assert page.locator("textarea").input_value() == "It was wrong. The cup too."
    page.locator("textarea").fill("Dry the cup with a cloth before you carry it.")
    page.get_by_role("button", name="Save the text").click()
    page.get_by_text("The lesson has its new text.").wait_for()
    page.get_by_role("link", name="Find similar lessons").click()
    page.get_by_label("Wash the mug").check()
    page.get_by_role("button", name="Merge").click()
    page.get_by_text("The lessons are merged.").wait_for()
    assert "learned 2 times" in page.inner_text("main")
    page.get_by_role("button", name="Go back to change 2").click()
    page.get_by_text("The lesson is rolled back.").wait_for()
    page.get_by_label("Reason to retire it").fill("the cups are gone")
    page.get_by_role("button", name="Retire").click()
    page.get_by_text("The lesson is retired.").wait_for()
    page.get_by_role("button", name="Go back to change 1").click()
    page.locator("h1", has_text="Dry the cup before you carry it.").wait_for()
    history = page.inner_text(".history")
    assert [*re.findall(r"(\d) (\w+) ", history)][::-1][:4] == [
        ("1", "learn"), ("2", "edit"), ("3", "merge"), ("4", "rollback")
    ]  # fmt: skip
    assert "by the page" in history


def test_of_two_tabs_the_later_one_changes_nothing_unseen(page, server):
    server.lessons(lambda lessons: teach(lessons, "Take a spoon before the soup.", "eat the soup"))
    page.reload()
    page.get_by_role("link", name="Take a spoon").click()
    other = page.context.new_page()
    other.goto(page.url)
    for tab, words in ((page, "Take the spoon first."), (other, "Take the soup first.")):
        tab.locator("textarea").fill(words)
        tab.get_by_role("button", name="Save the text").click()
    page.locator("h1", has_text="Take the spoon first.").wait_for()
    other.get_by_text("Somebody changed this lesson").wait_for()
    assert other.locator("h1").inner_text() == "Take the spoon first."
    assert other.locator("textarea").input_value() == "Take the soup first."
    other.get_by_role("button", name="Save the text").click()
    other.locator("h1", has_text="Take the soup first.").wait_for()


def test_a_hostile_lesson_is_shown_as_text(page, server):
    lesson_id = server.lessons(attack)
    shown = "[U+202E]</bdi><script>hit=1</script>\"'><img src=x onerror=hit=1>[U+E0041]{{ 7*7 }}"
    page.goto(f"{server.base}/?q=an+attack")
    for address in (None, f"/why?task={quote(f'an attack {ATTACK}')}", "/"):
        if address:
            page.goto(server.base + address)
        assert shown in rows(page)
    page.get_by_role("link", name="<script>").first.click()
    assert page.locator("h1").inner_text() == shown
    assert page.locator("code").inner_text() == lesson_id
    assert page.locator("textarea").input_value() == shown
    assert page.inner_text("dl").count("<script>") >= 4
    page.locator(".decide").get_by_label("Reason").fill(ATTACK)
    page.get_by_role("button", name="Reject").click()
    page.get_by_text("The lesson is rejected.").wait_for()
    page.go_back()
    page.reload()
    assert "img src=x" in page.inner_text(".history")
    page.goto(f"{server.base}/runs")
    page.get_by_role("link", name="first", exact=True).click()
    page.get_by_role("link", name="retry, seed 0").last.click()
    assert shown in page.inner_text("main")
    assert page.evaluate("typeof hit") == "undefined"
    # Should a text slip through unescaped, the browser does not run it.
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=hit=1>')")
    page.evaluate("new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
    assert page.evaluate("typeof hit") == "undefined"


def test_a_run_is_told_attempt_by_attempt(page, server):
    page.goto(f"{server.base}/runs")
    assert "finished" in page.locator("article", has_text="first").inner_text()
    page.get_by_role("link", name="first", exact=True).click()
    assert page.get_by_role("img", name="Learning curves").count() == 1
    assert "intervals over tasks" in page.locator("figcaption").inner_text()
    assert "0/2" in page.locator("tr", has_text="retry").first.inner_text()
    page.locator("li", has_text="cellar").get_by_role("link", name="reflexion, seed 0: solved in 2").click()
    first, second = page.locator(".try").all_inner_texts()
    assert "open the chest" in first
    assert "No lesson was near enough." in first
    assert "Take the key before you open the chest of the cellar." in second.partition("What it was told")[2]


def test_pages_show_what_others_write_while_they_are_open(page, server):
    whole = server.folder / "whole"
    beside(play, whole)
    growing = server.folder / "runs" / "growing"
    growing.mkdir()
    lines = (whole / "journal.jsonl").read_bytes().splitlines(keepends=True)
    (growing / "config.json").write_bytes((whole / "config.json").read_bytes())
    (growing / "journal.jsonl").write_bytes(b"".join(lines[:2]) + lines[2][:50])  # the third is being written
    page.goto(f"{server.base}/run?run=growing")
    cells = page.locator("tr", has_text="retry").last.locator("td")
    assert "going on" in page.inner_text("main")
    assert cells.first.inner_text() == "2"
    page.evaluate("window.same = true")
    (growing / "journal.jsonl").write_bytes(b"".join(lines))
    page.locator("td", has_text=re.compile("^4$")).first.wait_for()
    assert page.evaluate("window.same")  # it was not loaded anew

    page.goto(f"{server.base}/?kind=&q=")
    server.lessons(lambda lessons: teach(lessons, "Water the roses at noon."))
    page.get_by_role("link", name="Water the roses at noon.").wait_for()

    # What changes while an older state is on its way is asked for again.
    page.evaluate(
        """() => {
          const ask = window.fetch;
          let asked = 0;
          window.fetch = (...given) => {
            asked += 1;
            if (asked > 1) news.className = "again";
            return ask(...given);
          };
          source.dispatchEvent(new Event("changed"));
          source.dispatchEvent(new Event("changed"));
        }"""
    )
    page.locator("#news.again").wait_for(state="attached")

    # What somebody is at work in is not touched, and nothing is said any more once it holds.
    page.get_by_role("link", name="Water the roses at noon.").focus()
    lesson = server.lessons(lambda lessons: teach(lessons, "Water the lilies at dawn."))
    page.get_by_text("There is news").wait_for()
    assert "Water the lilies at dawn." not in rows(page)
    page.get_by_label("Tool").focus()
    server.lessons(lambda lessons: lessons.forget(lesson.id))
    page.locator("#news", has_text=re.compile("^$")).wait_for(state="attached")


def test_a_store_that_goes_away_is_told_of_and_comes_back(page, server):
    away = server.folder / "away"
    page.get_by_role("link", name="Wash the mug").click()
    page.locator("h1", has_text="Wash the mug").wait_for()
    (server.folder / "lessons").rename(away)
    page.get_by_role("button", name="Save the text").click()
    page.get_by_text("It is not known whether your change was made").wait_for()
    page.goto(f"{server.base}/review")
    page.get_by_role("heading", name="The lessons can't be reached").wait_for()
    away.rename(server.folder / "lessons")
    page.get_by_role("heading", name="Waiting for review").wait_for()  # by itself


def test_it_is_used_by_the_keyboard_alone(page, server):
    server.lessons(
        lambda lessons: teach(lessons, "Close the window at night.", "lock the house"), propose=True
    )

    def focused() -> str:
        return page.evaluate(
            "(e => e.getAttribute('aria-label') || e.innerText || e.name)(document.activeElement)"
        )

    def tab_to(name: str) -> None:
        for _ in range(80):
            page.keyboard.press("Tab")
            if focused().startswith(name):
                return
        raise AssertionError(f"{name} is not reached")

    page.goto(f"{server.base}/review")
    page.keyboard.press("Tab")
    assert focused() == "To the content"
    page.keyboard.press("Enter")
    tab_to("Approve: Close the window")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    page.keyboard.press("Enter")
    page.get_by_text("The lesson is approved.").wait_for()
    tab_to("Library")
    page.keyboard.press("Enter")
    page.wait_for_url(f"{server.base}/")
    tab_to("q")
    page.keyboard.type("lock the house")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=lock**")
    assert rows(page)[0] == "Close the window at night."


def test_no_page_has_a_serious_problem_of_access(browser, server):
    context = browser.new_context(viewport={"width": 390, "height": 800})
    page = context.new_page()
    page.goto(server.url)
    page.get_by_role("link", name="Wash the mug").click()
    lesson = page.url.removeprefix(server.base)
    story = "/story?run=first&task=cellar&arm=reflexion&seed=0"
    for address in (
        "/",
        "/?q=mug",
        lesson,
        "/review",
        "/why?task=mug",
        "/runs",
        "/run?run=first",
        story,
        "/lesson?id=0",
    ):
        page.goto(server.base + address)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches") == (scheme == "dark")
            assert problems(page) == [], (address, scheme)
    context.close()


def test_ctrl_c_ends_it_also_while_a_page_is_live(browser, tmp_path):
    beside(with_lessons, tmp_path / "lessons", lambda lessons: teach(lessons, "Look twice."), {})
    (tmp_path / "runs").mkdir()
    with served(tmp_path) as server:
        page = browser.new_page()
        with page.expect_request("**/live"):
            page.goto(server.url)
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(timeout=60) == 130
        page.close()
