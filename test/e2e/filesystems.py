# SPDX-License-Identifier: Apache-2.0
#
# A job whose dumps go to a file system that is full, fills up, or whose blocks get shared, and what became of both.
# Lives here: file systems in images, filling them, one run and what it left. Must not live here: what is right (the test).
#
#   filesystems.py FILE_SYSTEM PHASE MPI STAGING RUNS     in name spaces of its own: a line of JSON per run
#   filesystems.py FILE_SYSTEM sizes MPI ENDING 1         likewise: what dumps of a job with few calls take
#   filesystems.py --table RUNS [PHASE...]                a line of figures for each file system and phase
#
# All of it happens in a mount and a process name space of its own that end with this process, however it ends, and
# take mounts, loop devices and images with them. Nothing of the machine's own /dev/shm is used.
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import jobs  # noqa: E402

FILE_SYSTEMS = ("btrfs", "xfs-reflink", "xfs", "ext4", "tmpfs", "overlay")
IN_PLACE = ("xfs", "ext4", "tmpfs")  # where a dump may be mapped
SHARES_BLOCKS = ("btrfs", "xfs-reflink")
# full: before the job starts; nowhere: likewise, and the directory for the dumps is still to be made. growing: at any
# moment while it runs. copied: somebody copies the dumps that are there, sharing their blocks, and then the rest fills up.
# freed: it fills up, and has room again before the job ends.
PHASES = ("full", "nowhere", "growing", "copied", "freed")
# room: /dev/shm has room for staged dumps. none: too little there, and /tmp holds no mapped file.
STAGING = ("room", "none")
SPACE = pathlib.Path("/mnt")
MAKE = {
    "btrfs": ["mkfs.btrfs", "-q"],
    "xfs": ["mkfs.xfs", "-q", "-m", "reflink=0"],
    "xfs-reflink": ["mkfs.xfs", "-q", "-m", "reflink=1"],
    "ext4": ["mkfs.ext4", "-q", "-m", "0"],
}
SIZE_MB = {"btrfs": 160, "xfs": 320, "xfs-reflink": 320, "ext4": 96}


def sh(*words):
    return subprocess.run(list(map(str, words)), check=True, capture_output=True, text=True)


# ---- file systems ------------------------------------------------------------------------------------------------


def make_image(kind, where):
    image = SPACE / f"{kind}.image"
    with open(image, "wb") as file:
        file.truncate(SIZE_MB[kind] << 20)
    sh(*MAKE[kind], image)
    where.mkdir()
    sh("mount", "-o", "loop", image, where)  # the loop device goes with the last mount


def make_file_system(kind, where):
    if kind == "tmpfs":
        where.mkdir()
        sh("mount", "-t", "tmpfs", "-o", "size=96m", "tmpfs", where)
    elif kind == "overlay":
        below = SPACE / "below"
        make_image("xfs-reflink", below)
        for name in ("lower", "upper", "work"):
            (below / name).mkdir()
        where.mkdir()
        sh("mount", "-t", "overlay", "overlay", "-o",
           f"lowerdir={below}/lower,upperdir={below}/upper,workdir={below}/work", where)
    else:
        make_image(kind, where)


def cover_tmp(root):
    """/tmp and /var/tmp that hold no mapped file; the checkout stays visible wherever it is."""
    (SPACE / "root").mkdir()
    sh("mount", "--bind", root, SPACE / "root")
    for place in ("/tmp", "/var/tmp"):
        sh("mount", "-t", "ramfs", "-o", "mode=1777", "ramfs", place)
    if not root.exists():
        root.mkdir(parents=True)
        sh("mount", "--bind", SPACE / "root", root)
    os.chdir(root)


def make_space(kind, staging):
    sh("mount", "-t", "tmpfs", "-o", "size=1g", "tmpfs", SPACE)
    if staging == "none":
        cover_tmp(jobs.ROOT)
    sh("mount", "-t", "tmpfs", "-o", "size=512m" if staging == "room" else "size=16m", "tmpfs", "/dev/shm")
    make_file_system(kind, SPACE / "fs")


def fill(where):
    """Takes every block that is left, then every place for a name or a few bytes."""
    with open(where / "filler", "wb") as file:
        offset, step = 0, 1 << 30
        while step >= 4096:
            try:
                os.posix_fallocate(file.fileno(), offset, step)
                offset += step
            except OSError:
                step //= 2
    try:
        for i in range(20000):
            (where / f"filler.{i}").write_bytes(b"x" * 4096)
    except OSError:
        pass
    sh("sync", "-f", where)  # stores into pages that are clean again ask the file system anew


def free(where):
    for path in where.glob("filler*"):
        path.unlink()
    sh("sync", "-f", where)  # with a journal the room is there once that is written: up to 5 s later on ext4


# ---- one run -----------------------------------------------------------------------------------------------------


def copy_sharing(where, dumps):
    copies = where / "copies"
    copies.mkdir()
    for path in dumps.glob("commtap.*"):
        sh("cp", "--reflink=always", path, copies)


def start(mpi, dumps, go, ledger, way="preload"):
    return start_line(jobs.job_line(mpi, 2, [jobs.program(mpi, "growing"), str(go)], dumps, way=way,
                                    environment={"EXPECT_DIR": str(ledger), "COMMTAP_RUN_ID": "fs"}))


def start_line(line):
    return jobs.start(line, cwd=SPACE)


def finish(process):
    try:
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err
    except subprocess.TimeoutExpired:
        out, err = jobs.stop(process)
        return "hangs", out, err


def disturb(phase, where, dumps, go):
    """While the job runs."""
    if phase == "copied":
        copy_sharing(where, dumps)
    if phase == "growing":
        time.sleep(random.uniform(0, 0.15))
    if phase in ("growing", "copied", "freed"):
        fill(where)
    if phase == "freed":
        wait_for_growth(dumps)
        free(where)
    if phase == "emptied":
        for path in dumps.iterdir():
            os.truncate(path, 0)
    go.touch()


def wait_for_growth(dumps):
    """Until some table has found no room; where no dump shows that, a moment."""
    end = time.monotonic() + (10 if list(dumps.glob("*.ct")) else 0.3)
    while time.monotonic() < end and check(dumps)["tables_in_memory"] == 0:
        time.sleep(0.02)


def names_in(directory):
    return sorted(path.name for path in directory.glob("*")) if directory.is_dir() else []


def stubs_in(dumps):
    return [dict(line.split("=", 1) for line in path.read_text().splitlines()) for path in dumps.glob("*.stub")]


def aftermath(dumps):
    """What is there while the disk is still full, and what can be had once it is not."""
    return {"left": names_in(dumps), "stubs": stubs_in(dumps),
            "staged": [str(path) for place in ("/dev/shm", "/tmp", "/var/tmp")
                       for path in pathlib.Path(place).glob("commtap.fs.*")]}


def check(dumps):
    """What the dumps hold; calls that they say they lost count among the calls."""
    done = jobs.commtap("check", "--format", "json", dumps, codes=(0, 1, 3))
    if done.returncode != 0:
        return {"ranks": 0, "calls": 0, "operations_lost": 0, "tables_in_memory": 0}
    said = json.loads(done.stdout)
    return {"ranks": len({dump["rank"] for dump in said["dumps"]}), "calls": sum(dump["calls"] for dump in said["dumps"]),
            **{key: said["losses"][key] for key in ("operations_lost", "tables_in_memory")}}


def findings(dumps):
    done = jobs.commtap("report", "--format", "json", dumps, codes=(0, 3))
    return [finding["code"] for finding in json.loads(done.stdout)["findings"]] if done.returncode == 0 else []


def collect(dumps):
    subprocess.run([str(jobs.ROOT / "scripts" / "commtap-collect"), "--remove", str(dumps)], capture_output=True,
                   timeout=60)


def clear(where, go):
    for path in (where / "dumps", where / "copies", SPACE / "ledger"):
        shutil.rmtree(path, ignore_errors=True)
    for path in pathlib.Path("/dev/shm").glob("commtap.*"):
        path.unlink()
    go.unlink(missing_ok=True)
    (SPACE / "ledger").mkdir()


def run_once(phase, mpi, way="preload"):
    where, go, ledger = SPACE / "fs", SPACE / "go", SPACE / "ledger"
    dumps = where / "dumps"
    clear(where, go)
    if phase == "full":
        dumps.mkdir()
    if phase in ("full", "nowhere"):
        fill(where)
    process = start(mpi, dumps, go, ledger, way)
    first = process.stdout.readline()
    present = names_in(dumps)
    disturb(phase, where, dumps, go)
    code, out, err = finish(process)
    result = {"returncode": code, "stdout": first + out, "present": present, "calls_made": made(ledger),
              "said": [line for line in err.splitlines() if line.startswith("commtap: ")],
              "stderr": [line for line in err.splitlines() if not line.startswith("commtap: ")], **aftermath(dumps)}
    free(where)
    collect(dumps)
    result["dumps"] = check(dumps)
    result["findings"] = findings(dumps) if phase == "freed" else []
    return result


def made(ledger):
    return sum(count for (what, _), count in jobs.ledger(ledger)[0].items() if what == "calls")


def without(mpi):
    """The same job with commtap nowhere near."""
    clear(SPACE / "fs", SPACE / "go")
    (SPACE / "go").touch()
    code, out, err = finish(start(mpi, None, SPACE / "go", SPACE / "ledger", way="none"))
    return {"returncode": code, "stdout": out, "stderr": err.splitlines()}


def sizes(kind, mpi, ending):
    """Bytes on the disk of what a job with few calls leaves, before and after dumps are collected."""
    make_space(kind, "room")
    dumps = SPACE / "fs" / "dumps"
    finish(start_line(jobs.job_line(mpi, 2, [jobs.program(mpi, "ending"), ending], dumps,
                                    environment={"COMMTAP_RUN_ID": "fs"})))
    sh("sync", "-f", SPACE / "fs")  # some file systems know what a file takes only then
    before = {"left": allocated(dumps.glob("*.ct")), "staged": allocated(pathlib.Path("/dev/shm").glob("commtap.fs.*"))}
    collect(dumps)
    sh("sync", "-f", SPACE / "fs")
    return {**before, "collected": allocated(dumps.glob("*.ct"))}


def allocated(paths):
    return [path.stat().st_blocks * 512 for path in paths]


def ends_with_its_caller():
    sys.stdin.read()
    os._exit(9)


def play_sizes(kind, mpi, ending):
    try:
        return sizes(kind, mpi, ending)
    except (subprocess.CalledProcessError, OSError) as error:
        return {"cannot": (getattr(error, "stderr", "") or str(error)).strip()}


def play(kind, phase, mpi, staging, runs):
    threading.Thread(target=ends_with_its_caller, daemon=True).start()
    if phase == "sizes":
        print(json.dumps(play_sizes(kind, mpi, staging)))
        return
    try:
        make_space(kind, staging)
    except (subprocess.CalledProcessError, OSError) as error:
        print(json.dumps({"cannot": (getattr(error, "stderr", "") or str(error)).strip()}))
        return
    expected = without(mpi)
    for _ in range(runs):
        print(json.dumps({"without": expected, **run_once(phase, mpi)}), flush=True)


# ---- from outside ------------------------------------------------------------------------------------------------


def why_not():
    """Why nothing of this can be done here, or None."""
    if os.geteuid() != 0:
        return "mounting needs root"
    for tool in ("mkfs.btrfs", "mkfs.xfs", "mkfs.ext4", "losetup"):
        if not shutil.which(tool, path=os.environ.get("PATH", "") + ":/sbin:/usr/sbin"):
            return f"{tool} is not installed"
    tried = subprocess.run(["unshare", "--mount", "--pid", "--fork", "mount", "-t", "tmpfs", "tmpfs", "/mnt"],
                           capture_output=True, text=True)
    return "mounting is not allowed here: " + tried.stderr.strip() if tried.returncode != 0 else None


def runs_of(kind, phase, mpi, staging, runs=1):
    """Results of so many runs; what keeps them from being made is in the first one's "cannot"."""
    line = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, __file__, kind, phase,
            mpi, staging, str(runs)]
    process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        # stdin stays open until the runs are over: its end would end them
        out, err = process.stdout.read(), process.stderr.read()
    finally:
        process.kill()
        process.wait()
    results = [json.loads(line) for line in out.splitlines()]
    assert results, err
    return results


def sizes_of(kind, mpi, ending):
    """What a job with few calls leaves on that file system, in bytes per dump."""
    return runs_of(kind, "sizes", mpi, ending)[0]


def harm(run):
    """In what the job differs from one without commtap."""
    return {key: (run[key], run["without"][key]) for key in ("returncode", "stdout", "stderr")
            if run[key] != run["without"][key]}


def is_whole(run):
    dumps = run["dumps"]
    return dumps["calls"] == run["calls_made"] and dumps["operations_lost"] == 0 and dumps["tables_in_memory"] == 0


def unsaid(run):
    """What was lost without a word, or left in a state that misleads."""
    dumps, silent = run["dumps"], []
    if not is_whole(run) and not run["said"] and dumps["ranks"] != 1:
        silent.append("anything")
    if dumps["ranks"] == 2 and dumps["calls"] != run["calls_made"]:
        silent.append(f"{run['calls_made'] - dumps['calls']} calls")
    silent += [f"partial file {name}" for name in run["left"] if not name.endswith((".ct", ".stub"))]
    silent += [f"stub {stub}" for stub in run["stubs"]
               if set(stub) != {"host", "boot_id", "path", "pid", "rank"} or stub["path"] not in run["staged"]]
    return silent


# what the table shows: phase, staging, file systems
LINES = (("full", "room", FILE_SYSTEMS), ("growing", "room", FILE_SYSTEMS), ("growing", "none", FILE_SYSTEMS),
         ("copied", "room", SHARES_BLOCKS))


def table(runs, phases):
    """Prints a line per file system and phase; how many runs were bad."""
    print(f"{'phase':8} {'staging':8} {'file system':12} {'runs':>5} {'harmed':>7} {'not said':>9} {'staged':>7} "
          f"{'whole':>6} {'lost, said':>10}", flush=True)
    bad = 0
    for phase, staging, kinds in LINES:
        for kind in kinds if phase in phases else ():
            bad += line_of(phase, staging, kind, runs)
    return bad


def line_of(phase, staging, kind, runs):
    results = runs_of(kind, phase, "mpich", staging, (runs + 1) // 2)
    if "cannot" in results[0]:
        print(f"{phase:8} {staging:8} {kind:12} {results[0]['cannot']}", flush=True)
        return 0
    results += runs_of(kind, phase, "openmpi", staging, runs // 2) if runs > 1 else []
    harmed = [run for run in results if harm(run)]
    silent = [run for run in results if unsaid(run)]
    lost = sum(not is_whole(run) and bool(run["said"]) for run in results)
    print(f"{phase:8} {staging:8} {kind:12} {len(results):5} {len(harmed):7} {len(silent):9} "
          f"{sum(bool(run['staged']) for run in results):7} {sum(map(is_whole, results)):6} {lost:10}", flush=True)
    for run in (harmed + silent)[:3]:
        print("   ", harm(run), unsaid(run), run["said"], flush=True)
    return len(harmed) + len(silent)


if __name__ == "__main__":
    if sys.argv[1] == "--table":
        reason = why_not()
        if reason:
            sys.exit("filesystems.py: " + reason)
        sys.exit(1 if table(int(sys.argv[2]), sys.argv[3:] or PHASES) else 0)
    play(*sys.argv[1:5], int(sys.argv[5]))
