"""More than 300 malformed inputs: frames, time columns, label files and patterns; each is refused in one line."""

import random

import numpy as np
import pytest
from format_files import write

from nutime.data.formats.read import FormatError, read_file
from nutime.data.series import read_input

pd = pytest.importorskip("pandas")
SEEDS = range(10)


def numbers(rng, n):
    return [round(rng.uniform(-9, 9), 2) for _ in range(n)]


def long_frame(rng):
    n = rng.randrange(6, 12)
    return {"id": ["p"] * n, "time": list(range(n)), "x": numbers(rng, n), "y": numbers(rng, n)}


# ---- frames: functions from a random generator to an input that is refused ---------------------------------


def text_in_a_channel(rng):
    columns = long_frame(rng)
    columns["x"] = [str(value) + rng.choice([" V", "a", "!"]) for value in columns["x"]]
    return pd.DataFrame(columns)


def junk_time(rng):
    columns = long_frame(rng)
    place = rng.randrange(len(columns["time"]))
    columns["time"] = [str(time) if index != place else "soon" for index, time in enumerate(columns["time"])]
    return pd.DataFrame(columns)


def missing_time(rng):
    columns = long_frame(rng)
    columns["time"] = [float(time) for time in columns["time"]]
    columns["time"][rng.randrange(len(columns["time"]))] = np.nan
    return pd.DataFrame(columns)


def equal_times(rng):
    columns = long_frame(rng)
    columns["time"] = [time // 3 for time in columns["time"]]
    return pd.DataFrame(columns)


def far_time(rng):
    columns = long_frame(rng)
    columns["time"][-1] = rng.choice([10**9, 10**12])
    return pd.DataFrame(columns)


def missing_id(rng):
    columns = long_frame(rng)
    columns["id"][rng.randrange(len(columns["id"]))] = rng.choice([None, ""])
    return pd.DataFrame(columns)


def two_times(rng):
    columns = long_frame(rng)
    return pd.DataFrame({**columns, rng.choice(["date", "Timestamp"]): columns["time"]})


def label_inside(rng):
    columns = long_frame(rng)
    return pd.DataFrame({**columns, rng.choice(["label", "Class", "target"]): 1})


def only_times(rng):
    return pd.DataFrame({key: value for key, value in long_frame(rng).items() if key in ("id", "time")})


def same_names(rng):
    frame = pd.DataFrame(long_frame(rng))
    return frame.rename(columns={"y": "x"})


def all_missing(rng):
    return pd.DataFrame({**long_frame(rng), "x": np.nan})


def infinite(rng):
    columns = long_frame(rng)
    columns["y"][rng.randrange(len(columns["y"]))] = rng.choice([np.inf, -np.inf])
    return pd.DataFrame(columns)


def other_columns(rng):
    frame = pd.DataFrame(long_frame(rng)).drop(columns="id")
    return [frame, frame.rename(columns={"x": rng.choice("zwv")})]


def empty_frame(rng):
    return [pd.DataFrame(long_frame(rng)), pd.DataFrame({"time": [], "x": [], "y": []})]


def several_ids_in_a_list(rng):
    columns = long_frame(rng)
    columns["id"][-1] = "q"
    return [pd.DataFrame(columns)]


def index_of_text(rng):
    columns = long_frame(rng)
    index = pd.MultiIndex.from_arrays([columns["id"], [f"t{time}" for time in columns["time"]]])
    return pd.DataFrame({"x": columns["x"]}, index=index)


def wide_with_text(rng):
    return pd.DataFrame({"t0": numbers(rng, 3), "who": ["a", "b", "c"]})


FRAMES = [
    *(text_in_a_channel, junk_time, missing_time, equal_times, far_time, missing_id, two_times, label_inside),
    *(only_times, same_names, all_missing, infinite, other_columns, empty_frame, several_ids_in_a_list),
    *(index_of_text, wide_with_text),
]


@pytest.mark.parametrize("make", FRAMES, ids=lambda make: make.__name__)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_malformed_frame_is_refused_in_one_line(make, seed):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (any reason will do)
        read_input(make(random.Random(seed)))
    assert str(caught.value)
    assert "\n" not in str(caught.value)


# ---- files: functions that break a long table, a folder with labels, or the options ------------------------


def table_text(columns):
    rows = zip(*columns.values(), strict=True)
    return "\n".join(",".join(map(str, row)) for row in [list(columns), *rows]) + "\n"


def broken_time(rng, columns):
    junk = ["", "soon", "NaN", "2024-13-01", "12:00", "1/2/2024", "31/31/2024", "0x10", "N/A"]
    columns["time"][rng.randrange(len(columns["time"]))] = rng.choice(junk)


def mixed_times(rng, columns):
    columns["time"][rng.randrange(len(columns["time"]))] = rng.choice(["2024-01-01", "2024-01-01T00:00Z"])


def ambiguous_dates(rng, columns):
    columns["time"] = [f"{1 + index:02d}/{rng.randrange(1, 12):02d}/2024" for index in range(len(columns["time"]))]
    columns["time"][0] = "01/02/2024"


def many_equal_times(rng, columns):
    columns["time"] = [time // 4 for time in columns["time"]]


def time_far_away(rng, columns):
    columns["time"][0] = rng.choice([-(10**10), 1e15])


def text_value(rng, columns):
    columns[rng.choice("xy")][rng.randrange(len(columns["x"]))] = rng.choice(["abc", "1.2.3", "--1", "1e", "inf"])


def blank_id(rng, columns):
    columns["id"][rng.randrange(len(columns["id"]))] = ""


def changing_label(rng, columns):
    columns["label"] = ["a"] * (len(columns["id"]) - 1) + ["b"]


def no_values(rng, columns):
    del columns["x"], columns["y"]


TABLES = [
    *(broken_time, mixed_times, ambiguous_dates, many_equal_times, time_far_away, text_value, blank_id),
    *(changing_label, no_values),
]


@pytest.mark.parametrize("spoil", TABLES, ids=lambda spoil: spoil.__name__)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_malformed_table_is_refused_in_one_line(tmp_path, spoil, seed):
    rng = random.Random(seed)
    columns = long_frame(rng)
    spoil(rng, columns)
    assert_refused(write(tmp_path / "set.csv", table_text(columns)))


def assert_refused(path, **options):
    with pytest.raises(FormatError) as caught:
        read_file(path, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"time_column": "tiem"},
        {"id_column": "idd"},
        {"label_column": "lable"},
        {"channel_columns": ["x", "q"]},
        {"channel_columns": []},
        {"channel_columns": ["x", "x"]},
        {"channel_columns": ["time"], "time_column": "time"},
        {"time_column": "9"},
        {"freq": "fast"},
        {"freq": "0"},
        {"freq": "-1s"},
        {"freq": "1s"},
        {"labels": "labels.csv"},
    ],
    ids=str,
)
def test_malformed_options_are_refused_in_one_line(tmp_path, options):
    assert_refused(write(tmp_path / "set.csv", table_text(long_frame(random.Random(0)))), **options)


def word(rng):
    return "".join(rng.choices("pqrstuvw", k=5))


def unknown_file(rng):
    return f"file,label\n{rng.choice(['z.csv', 'a.txt', 'labels.csv', '../a.csv', ''])}{word(rng)},x\n"


def missing_cell(rng):
    return f"a.csv,{word(rng)}\nb.csv\n"


def extra_cell(rng):
    return f"file,label\na.csv,x\na.csv,x,{word(rng)}\n"


def two_labels(rng):
    return f"a.csv,{word(rng)}\nb.csv,x\na.csv,other\n"


def only_a_header(rng):
    return rng.choice(["file,label", "filename,class", "id,target", "path,label"]) + "\n" * rng.randrange(1, 99)


def open_quote(rng):
    return rng.choice(['"a.csv,{}\n', 'a.csv,"{}\n']).format(word(rng))


@pytest.mark.parametrize(
    "make",
    [unknown_file, missing_cell, extra_cell, two_labels, only_a_header, open_quote],
    ids=lambda make: make.__name__,
)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_malformed_label_file_is_refused_in_one_line(tmp_path, make, seed):
    home = tmp_path / "runs"
    home.mkdir()
    for name in ("a.csv", "b.csv"):
        write(home / name, "time,x\n0,1\n1,2\n")
    assert_refused(home, labels=write(tmp_path / "labels.csv", make(random.Random(seed))))


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"notes.md": "x"},
        {"a.csv": ""},
        {"a.csv": "time,x\n"},
        {"a.csv": "time,x\n0,1\n", "b.csv": "time,y\n0,1\n"},
        {"a.csv": "time,x\n0,1\n", "b.csv": "time,x,y\n0,1,2\n"},
        {"a.csv": "id,time,x\np,0,1\nq,0,1\n"},
        {"a.ts": "@data\n"},
        {"a.ts": "@classLabel false\n@data\n1,2\n3,4\n"},
        {"a.npy": "junk"},
        {"a.parquet": "junk"},
        {"a.csv": "1,2\n3\n"},
        {"a.csv": "x\na\nb\n"},
        {"a.csv": b"\xff\xfe\x00"},
        {"labels.csv": "a,b\n"},
    ],
    ids=str,
)
@pytest.mark.parametrize("pattern", ["", "/*", "/**"])
def test_a_malformed_folder_is_refused_in_one_line(tmp_path, files, pattern):
    home = tmp_path / "runs"
    home.mkdir()
    for name, content in files.items():
        write(home / name, content)
    assert_refused(f"{home}{pattern}")


# ---- patterns: none of them finds files with one series each -----------------------------------------------


def no_such_folder(rng):
    return f"{word(rng)}/*.csv"


def no_such_name(rng):
    return f"{word(rng)}*.csv"


def no_such_suffix(rng):
    return f"*.{rng.choice(['csv', 'ts', 'npy'])}{word(rng)}"


def open_bracket(rng):
    return f"[{word(rng)}.csv"


def other_formats(rng):
    return rng.choice(["*", "**/*", "*.md", "notes.*", "n[o]tes.md", "?otes.md"])


def a_pattern_of_folders(rng):
    return rng.choice(["sub*", "su[b]", "s?b", "*ub", "**/sub"])


@pytest.mark.parametrize(
    "make",
    [no_such_folder, no_such_name, no_such_suffix, open_bracket, other_formats, a_pattern_of_folders],
    ids=lambda make: make.__name__,
)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_malformed_pattern_is_refused_in_one_line(tmp_path, make, seed):
    write(tmp_path / "run.csv", "time,x\n0,1\n1,2\n")
    write(tmp_path / "notes.md", "text")
    (tmp_path / "sub").mkdir()
    assert_refused(f"{tmp_path}/{make(random.Random(seed))}")
