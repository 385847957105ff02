"""The commands for recordings: intervals with their times, and messages where the input is no recording."""

import csv
import json
import os
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nutime import NuTimeAnnotator, find

FAST = ["--weights", "none"]
START = datetime(2024, 1, 1)
LENGTH, CHANGE, ODD = 2000, 1000, slice(500, 560)


@pytest.fixture(autouse=True)
def empty_folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def weights(encoder):
    return encoder


def channels(odd=True, seed=0):
    """Return a sine that becomes a saw and a cosine that may be stuck for a minute, as columns ``x`` and ``y``."""
    points = np.arange(LENGTH)
    x = np.where(points < CHANGE, np.sin(points * 2 * np.pi / 50), (points % 40) / 20 - 1)
    y = 3 * np.cos(points * 2 * np.pi / 50)
    if odd:
        y[ODD] = 8
    noise = 0.1 * np.random.default_rng(seed).normal(size=(2, LENGTH))
    return {"x": x + noise[0], "y": y + noise[1]}


def write(path, columns):
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(columns)
        table.writerows(zip(*columns.values(), strict=True))
    return path


def times():
    return [START + timedelta(seconds=index) for index in range(LENGTH)]


@pytest.fixture
def recording(tmp_path):
    return write(tmp_path / "recording.csv", {"time": times(), **channels()})


@pytest.fixture
def plain(tmp_path):
    return write(tmp_path / "plain.csv", channels())


def rows(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


# ---- segment ------------------------------------------------------------------------------------------


def test_segments_have_states_and_times(nutime, recording):
    done = nutime("segment", recording, "-o", "segments.csv", *FAST)
    assert (done.code, done.err) == (0, "")
    first, second = rows("segments.csv")
    assert (first["start"], first["state"], second["state"], second["end"]) == ("0", "0", "1", str(LENGTH))
    assert first["end"] == second["start"]
    assert abs(int(second["start"]) - CHANGE) < 40
    assert datetime.fromisoformat(second["start_time"]) == START + timedelta(seconds=int(second["start"]))
    assert datetime.fromisoformat(second["end_time"]) == START + timedelta(seconds=LENGTH - 1)
    assert "2,000 points, 2 channels, from 2024-01-01 00:00:00 to 2024-01-01 00:33:19" in done.out
    assert "Segments: 2, of 2 state(s)" in done.out


def test_durations_are_written_in_seconds(nutime, tmp_path):
    columns = {"time": pa.array(np.arange(LENGTH) * 500_000_000, pa.duration("ns")), **channels()}
    pq.write_table(pa.table(columns), tmp_path / "durations.parquet")
    done = nutime("segment", tmp_path / "durations.parquet", "-o", "segments.csv", *FAST)
    assert f"from 0.0 s to {(LENGTH - 1) / 2} s" in done.out
    first, second = rows("segments.csv")
    assert (float(first["start_time"]), float(second["start_time"])) == (0, int(second["start"]) / 2)


def test_the_number_of_change_points_can_be_given(nutime, plain, weights):
    done = nutime("segment", plain, "-o", "s.parquet", "--change-points", 3, "--weights", weights, "--json")
    document = json.loads(done.out)
    assert (document["segments"], len(document["change_points"]), document["points"]) == (4, 3, LENGTH)
    assert pq.read_table("s.parquet")["start"].to_pylist() == [0, *document["change_points"]]
    assert "start_time" not in pq.read_table("s.parquet").column_names


# ---- scan ---------------------------------------------------------------------------------------------


def test_an_odd_stretch_is_found_with_its_channel_and_times(nutime, recording, tmp_path):
    normal = write(tmp_path / "normal.csv", {"time": times(), **channels(odd=False, seed=1)})
    options = ["--reference", normal, "--scores", "scores.csv"]
    done = nutime("scan", recording, "-o", "intervals.csv", *options, *FAST, "--json")
    assert (done.code, done.err) == (0, "")
    document = json.loads(done.out)
    best = document["top"][0]
    assert best["start"] < ODD.stop
    assert best["end"] > ODD.start
    assert best["channel"] == "y"
    assert best["start_time"] == str(START + timedelta(seconds=best["start"]))
    assert len(rows("intervals.csv")) == document["intervals"]
    scores = rows("scores.csv")
    assert len(scores) == LENGTH
    assert datetime.fromisoformat(scores[7]["time"]) == START + timedelta(seconds=7)
    high = [row["is_anomaly"] == "true" for row in scores]
    assert high == [float(row["score"]) > document["threshold"] for row in scores]


def test_without_a_reference_the_highest_score_is_where_the_recording_is_unlike_itself(nutime, plain):
    done = nutime("scan", plain, "-o", "intervals.csv", *FAST, "--json")
    assert ODD.start <= json.loads(done.out)["highest"]["point"] < ODD.stop


def test_a_recording_without_an_anomaly_has_an_empty_table(nutime, tmp_path):
    normal = write(tmp_path / "normal.csv", channels(odd=False))
    done = nutime("scan", normal, "-o", "none.csv", "--false-alarm-rate", 1e-6, *FAST)
    assert done.code == 0
    assert "Anomalies: 0 interval(s)" in done.out
    assert (tmp_path / "none.csv").read_text() == "start,end,score,channel\n"


def test_a_column_of_labels_is_no_channel_and_a_note_says_so(nutime, tmp_path):
    labelled = write(tmp_path / "nab.csv", {**channels(), "label": (np.arange(LENGTH) > 500).astype(int)})
    done = nutime("scan", labelled, "-o", "i.csv", *FAST, "--json")
    assert json.loads(done.out)["channels"] == 2
    assert done.err == f"nutime: {labelled}: column 'label' holds labels and is no channel\n"


def test_channels_can_be_chosen(nutime, recording):
    done = nutime("scan", recording, "-o", "i.csv", "--channels", "y", *FAST, "--json")
    assert json.loads(done.out)["channels"] == 1


def test_an_array_and_standard_input_are_recordings_too(nutime, tmp_path):
    values = channels()
    np.save(tmp_path / "recording.npy", np.stack(list(values.values())))
    assert nutime("scan", "recording.npy", "-o", "one.csv", *FAST).code == 0
    text = write(tmp_path / "text.csv", values).read_text()
    done = nutime("scan", "-", "-o", "-", *FAST, stdin=text)
    assert done.code == 0
    assert list(csv.DictReader(done.out.splitlines())) == [
        {**row, "channel": "xy"[int(row["channel"])]} for row in rows("one.csv")
    ]


# ---- annotate -----------------------------------------------------------------------------------------


POINTS = "start,end,label\n0,1000,sine\n1000,2000,saw\n"
TIMES = (
    "recording,start_time,end_time,label\n"
    "recording.csv,2024-01-01 00:00:00,2024-01-01 00:16:39,sine\n"
    "recording.csv,2024-01-01 00:16:40,2024-01-01 00:33:19,saw\n"
)


@pytest.mark.parametrize("table", [POINTS, TIMES])
def test_a_recording_is_annotated_by_intervals_of_another_and_by_the_saved_model(
    nutime, recording, tmp_path, weights, table
):
    (tmp_path / "known.csv").write_text(table)
    new = write(tmp_path / "new.csv", {"time": times(), **channels(odd=False, seed=1)})
    learned = ["--reference", recording, "--intervals", "known.csv", "--save", "model", "--weights", weights]
    done = nutime("annotate", new, "-o", "one.csv", *learned)
    assert (done.code, done.err) == (0, "")
    assert "nutime annotate NEW.csv --model model" in done.out
    found = rows("one.csv")
    assert {row["recording"] for row in found} == {"new"}
    assert {row["label"] for row in found} <= {"sine", "saw", ""}
    ends = [int(row["end"]) for row in found]
    assert [int(row["start"]) for row in found] == [0, *ends[:-1]]
    assert ends[-1] == LENGTH
    longest = max(found, key=lambda row: int(row["end"]) - int(row["start"]))
    expected = "sine" if int(longest["start"]) < 500 else "saw"
    assert longest["label"] == expected
    done = nutime("annotate", new, "-o", "two.csv", "--model", "model", "--json")
    assert rows("two.csv") == found
    assert sum(json.loads(done.out)["share"].values()) == pytest.approx(1)
    loaded = NuTimeAnnotator.load(tmp_path / "model")
    assert loaded.classes_.tolist() == ["saw", "sine"]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("start,end\n0,9\n", "known.csv: has no column 'label', only 'start', 'end'"),
        ("start,end,label\n0,9," + "a" * 300, "known.csv: holds a text of 300 characters, at most 256"),
        ("start,end,label\n0," + "9" * 5000 + ",a", "known.csv: holds a text of 5000 characters, at most 256"),
        ("start,end,label\n0,9.5,a\n", "known.csv: interval 0: 9.5 is not a point"),
        ("start,end,label\n0,5000,a\n", "known.csv: interval 0: 0 to 5000 is not within the 2000 points"),
        ("start_time,end_time,label\n1.5,9,a\n", "known.csv: interval 0: '1.5' is not a time like those of"),
        ("recording,start,end,label\nother,0,9,a\n", "known.csv: interval 0: there is no recording 'other'"),
    ],
)
def test_a_wrong_table_of_intervals_is_refused_in_one_line(nutime, recording, tmp_path, table, message):
    (tmp_path / "known.csv").write_text(table)
    done = nutime("annotate", recording, "-o", "o.csv", "--reference", recording, "--intervals", "known.csv")
    assert done.refusal.startswith(message)


def test_a_pipe_of_intervals_is_refused(nutime, recording, tmp_path):
    os.mkfifo(tmp_path / "known.csv")
    done = nutime("annotate", recording, "-o", "o.csv", "--reference", recording, "--intervals", "known.csv")
    assert done.refusal == "known.csv: cannot be read: is not a regular file"


# ---- find ---------------------------------------------------------------------------------------------


def test_matches_are_those_of_the_library_and_of_a_saved_index(nutime, recording):
    done = nutime("find", recording, "--query", "100:200", "-k", 4, "-o", "matches.csv", "--index", "index")
    assert (done.code, done.err) == (0, "")
    values = np.stack(list(channels().values()))
    expected = find(values, values[:, 100:200], 4)
    found = rows("matches.csv")
    assert [int(row["start"]) for row in found] == [match.start for match in expected]
    assert found[0]["recording"] == "recording"
    assert float(found[0]["distance"]) == 0
    assert datetime.fromisoformat(found[0]["end_time"]) == START + timedelta(seconds=199)
    done = nutime("find", "index", "--query", "100:200", "-k", 4, "-o", "again.csv")
    assert (done.code, done.err) == (0, "")
    assert rows("again.csv") == found


def test_columns_are_chosen_of_files_and_not_of_a_saved_index(nutime, recording, tmp_path):
    name = next(iter(channels()))
    done = nutime("find", recording, "--query", "100:200", "-o", "m.csv", "--index", "index", "--channels", name)
    assert done.code == 0
    for option in (["--channels", name], ["--id", "run"], ["--time", "when"], ["--freq", "1s"]):
        done = nutime("find", "index", "--query", "100:200", "-o", "again.csv", *option)
        assert done.refusal.startswith("index: is an index, which has its columns; --id, --time, --channels")
    part = write(tmp_path / "query.csv", {name: column[100:200] for name, column in channels().items()})
    assert nutime("find", "index", "--query", part, "-o", "again.csv", "--channels", name).code == 0
    assert rows("again.csv") == rows("m.csv")


def test_a_query_in_points_of_a_recording_with_missing_times_causes_a_warning(nutime, tmp_path):
    columns = {name: np.delete(column, np.s_[50:80]) for name, column in {"time": times(), **channels()}.items()}
    gappy = write(tmp_path / "gappy.csv", columns)
    warning = "points of --query are those of the regular grid, not rows of the input"
    assert warning in nutime("find", gappy, "--query", "100:200", "-o", "m.csv").err
    query = "2024-01-01 00:01:40/2024-01-01 00:03:19"
    assert warning not in nutime("find", gappy, "--query", query, "-o", "m.csv").err


def test_a_query_is_a_stretch_of_time_or_a_file(nutime, recording, tmp_path):
    query = "2024-01-01 00:01:40/2024-01-01 00:03:19"
    assert nutime("find", recording, "--query", query, "-o", "times.csv").code == 0
    part = write(tmp_path / "query.csv", {name: column[100:200] for name, column in channels().items()})
    assert nutime("find", recording, "--query", part, "-o", "file.csv").code == 0
    assert rows("times.csv") == rows("file.csv")
    assert rows("file.csv")[0]["start"] == "100"


def test_a_query_has_a_time_zone_exactly_if_the_recording_has_one(nutime, recording, tmp_path):
    zoned = tmp_path / "zoned.csv"
    table = rows(recording)
    for row in table:
        row["time"] = f"{row['time']}+02:00"
    with zoned.open("w", newline="") as file:
        writer = csv.DictWriter(file, table[0])
        writer.writeheader()
        writer.writerows(table)
    local, utc = "2024-01-01 00:01:40+02:00/2024-01-01 00:03:19+02:00", "2023-12-31 22:01:40Z/2023-12-31 22:03:19Z"
    for query in (local, utc):
        assert nutime("find", zoned, "--query", query, "-o", "m.csv", "--index", "index", "--force").code == 0
        assert rows("m.csv")[0]["start"] == "100"
        assert nutime("find", "index", "--query", query, "-o", "again.csv").code == 0
        assert rows("again.csv")[0]["start"] == "100"
    for source in (zoned, "index"):
        done = nutime("find", source, "--query", local.replace("+02:00", ""), "-o", "m.csv")
        assert "2024-01-01 00:01:40 has no time zone, the recording has one" in done.err
    done = nutime("find", recording, "--query", local, "-o", "m.csv")
    assert "has a time zone, and the times of the recording have none" in done.err


def test_the_files_of_the_user_are_never_replaced(nutime, recording, tmp_path):
    part = write(tmp_path / "query.csv", {name: column[100:200] for name, column in channels().items()})
    before = part.read_bytes()
    done = nutime("find", recording, "--query", part, "-o", part)
    assert done.refusal == f"{part}: is the input or inside it; name another place"
    folder = tmp_path / "kept"
    folder.mkdir()
    mine = write(folder / "mine.csv", channels())
    options = ["--query", "mine:100:200", "-k", 1, "-o", "m.csv", "--index", folder, "--force"]
    assert nutime("find", folder, *options).code == 0
    assert nutime("find", folder, "--query", "100:200", "-k", 1, "-o", "again.csv").code == 0
    assert rows("again.csv") == rows("m.csv")
    assert mine.is_file()
    assert part.read_bytes() == before


def test_a_folder_is_searched_and_the_query_names_its_recording(nutime, tmp_path):
    folder = tmp_path / "days"
    folder.mkdir()
    for seed, day in enumerate(("monday", "tuesday")):
        write(folder / f"{day}.csv", channels(seed=seed))
    done = nutime("find", folder, "--query", "tuesday:100:200", "-o", "m.csv", "--scale", "ignore", "--json")
    best, *others = json.loads(done.out)["matches"]
    assert (best["recording"], best["start"]) == ("tuesday", 100)
    assert "monday" in {match["recording"] for match in others}
    done = nutime("find", folder, "--query", "100:200", "-o", "m.csv")
    assert done.refusal == f"{folder}: has 2 recordings; write --query as NAME:START:END, or give a file"


@pytest.mark.parametrize(
    ("clock", "start"),
    [
        (np.arange(LENGTH) + 0.5, "100.5"),
        (times(), "2024-01-01 00:01:40"),
    ],
)
def test_the_times_of_each_recording_of_a_folder_are_kept(nutime, tmp_path, clock, start):
    folder = tmp_path / "days"
    folder.mkdir()
    write(folder / "monday.csv", {"time": range(LENGTH), **channels(seed=0)})
    write(folder / "tuesday.csv", {"time": clock, **channels(seed=1)})
    done = nutime("find", folder, "--query", "tuesday:100:200", "-o", "m.csv", "--scale", "ignore", "--json")
    best, *others = json.loads(done.out)["matches"]
    assert (best["recording"], str(best["start_time"])) == ("tuesday", start)
    assert rows("m.csv")[0]["start_time"] == start
    other = next(match for match in others if match["recording"] == "monday")
    assert float(other["start_time"]) == other["start"]


def test_printed_times_have_all_their_digits(nutime, tmp_path):
    fast = write(tmp_path / "fast.csv", {"time": np.arange(LENGTH) / 8192, **channels()})
    assert str(500 / 8192) in nutime("find", fast, "--query", "500:560", "-o", "m.csv").out


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("1990:2010", "--query '1990:2010' is not within the 2,000 points of"),
        ("nowhere", "--query 'nowhere' is neither START:END, nor two times as START/END, nor a file"),
        ("other:1:50", "has no recording 'other', only recording"),
        ("1.5/2.5", "'1.5' is not a time like those of the recording"),
    ],
)
def test_a_wrong_query_is_refused_in_one_line(nutime, recording, query, message):
    assert message in nutime("find", recording, "--query", query, "-o", "m.csv").refusal


# ---- what is no recording -----------------------------------------------------------------------------


@pytest.mark.parametrize("command", [["segment"], ["scan"], ["find", "--query", "1:9"]])
def test_a_table_of_series_is_refused_and_the_right_command_named(nutime, tmp_path, command):
    table = np.random.default_rng(0).normal(size=(40, 300))
    write(tmp_path / "series.csv", {f"t{index}": column for index, column in enumerate(table)})
    done = nutime(command[0], "series.csv", *command[1:], "-o", "o.csv")
    assert done.refusal.startswith("series.csv: 300 rows of 40 columns without times; for series in rows, use")


def test_several_recordings_are_refused_where_one_is_read(nutime, tmp_path):
    columns = {"id": np.arange(LENGTH) // 1000, "time": np.arange(LENGTH) % 1000, **channels()}
    write(tmp_path / "two.csv", columns)
    done = nutime("scan", "two.csv", "-o", "o.csv")
    assert done.refusal.startswith("two.csv: holds 2 series, and nutime scan reads one recording")
    assert nutime("find", "two.csv", "--query", "1:100:150", "-o", "m.csv").code == 0


def test_detect_names_scan_for_a_single_recording(nutime, recording, weights):
    done = nutime("detect", recording, "-o", "o.csv", "--weights", weights)
    assert f"nutime scan {recording} -o intervals.csv" in done.refusal
