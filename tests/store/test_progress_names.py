"""Consumer progress by topic and by group: the names are those of the table, and found without a walk over it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reput.formats.config.consumer_offset import split_key
from reput.store.metadata.json_homes import OffsetsFile
from reput.store.progress import progress as progress_module
from reput.store.progress.progress import ConsumerProgress
from reput.times import now_ms

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def new_progress(folder: Path) -> ConsumerProgress:
    """Progress of a store that has none yet."""
    return ConsumerProgress(OffsetsFile(folder / "consumerOffset.json", clock_ms=now_ms))


@given(
    st.lists(
        st.tuples(
            st.sampled_from(("commit", "reset", "clone", "clean_topic", "clean_group", "remove")),
            st.sampled_from("gh"),
            st.sampled_from("tu"),
            st.integers(0, 2),
        ),
        max_size=20,
    )
)
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_counts_and_names_are_those_of_the_table(tmp_path: Path, calls: list[tuple[str, str, str, int]]) -> None:
    """The count, the groups and the topics are those of the table after any calls, also where a group is cloned."""
    progress = new_progress(tmp_path)
    for call, group, topic, queue_id in calls:
        arguments: dict[str, tuple[Any, ...]] = {
            "commit": (group, topic, queue_id, 1),
            "reset": (group, topic, queue_id, 2),
            "clone": (group, "gh"[group == "g"], topic),
            "clean_topic": (topic,),
            "clean_group": (group,),
            "remove": (group, topic),
        }
        getattr(progress, call)(*arguments[call])
        table = progress.snapshot().offset_table
        assert progress.count == sum(map(len, table.values()))
        found = sorted(tuple(key.split("@")) for key in table)
        assert progress.groups() == sorted({group for _, group in found})
        assert [(one, group) for one in "tu" for group in progress.groups_of(one)] == found
        assert sorted((topic, one) for one in "gh" for topic in progress.topics_of(one)) == found


def test_names_were_looked_for_among_all_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The groups of a topic, and the topics of a group, are found without a look at the keys of others."""
    progress = new_progress(tmp_path)
    for number in range(50):
        progress.commit(f"g{number}", f"t{number}", 0, 1)
    looked_at: list[str] = []

    def split(key: str) -> tuple[str, str] | None:
        looked_at.append(key)
        return split_key(key)

    monkeypatch.setattr(progress_module, "split_key", split)
    assert (progress.groups_of("t7"), progress.topics_of("g8"), progress.has("g9", "none")) == (["g7"], ["t8"], False)
    assert sorted(looked_at) == ["t7@g7", "t8@g8"]
