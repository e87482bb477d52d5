# SPDX-License-Identifier: Apache-2.0
#
# What an installation brings beside the programs: completion in real shells, the header of the dump format by pkg-config;
# what packages are made of.
# Must not live here: what options do, manual pages (test_man.py).
import contextlib
import fnmatch
import os
import pty
import re
import select
import subprocess
import time

import pytest

import jobs

SHELLS = ["bash", "zsh", "fish"]
# What `commtap ctl` takes behind its directory, and what has names behind that.
ORDERS = {"pause": set(), "resume": set(), "snapshot": set(), "verbose": {"on", "off"}, "ops": set(),
          "stack": {"off", "site", "native", "python", "full"}}
PREFIX = "/opt/x"


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A whole installation for PREFIX, below the directory that is returned."""
    jobs.need("make")
    where = tmp_path_factory.mktemp("installed")
    subprocess.run(["make", "-s", "-C", jobs.ROOT, "-o", "all", "install", f"DESTDIR={where}", f"PREFIX={PREFIX}",
                    f"LIBDIR={PREFIX}/lib64"], check=True, capture_output=True, timeout=60)
    return where


def script(tmp_path, shell):
    path = tmp_path / f"commtap.{shell}"
    path.write_text(jobs.commtap("--completion", shell).stdout)
    return path


def environment(tmp_path):
    """One in which `commtap` is the program that was built, with nothing of the user's."""
    words = {"PATH": f"{jobs.BUILD}:{tmp_path}/bin:{os.environ['PATH']}", "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path),
             "XDG_DATA_HOME": str(tmp_path), "TERM": "dumb"}
    return {**jobs.clean_environment(), **words}


def said(command, tmp_path):
    done = subprocess.run(command, capture_output=True, text=True, env=environment(tmp_path), cwd=tmp_path, timeout=60)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


# ---- what each shell offers --------------------------------------------------------------------

def bash_offers(path, line, tmp_path):
    words = line.split(" ")
    quoted = " ".join(f"'{word}'" for word in words)
    show = f"source {path}; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _commtap; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    return set(said(["bash", "--norc", "-c", show], tmp_path).split())


def fish_offers(path, line, tmp_path):
    lines = said(["fish", "--no-config", "-c", f"source {path}; complete -C '{line}'"], tmp_path).splitlines()
    return {text.split("\t")[0] for text in lines}


class Terminal:
    """A shell that believes it is talked to by a user."""

    def __init__(self, command, tmp_path):
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.chdir(tmp_path)
            os.execvpe(command[0], command, environment(tmp_path))

    def type(self, text):
        os.write(self.terminal, text.encode())

    def read_until(self, sign, seconds=60):
        seen, end = "", time.monotonic() + seconds
        while not (found := re.search(sign, seen, re.DOTALL)):
            assert time.monotonic() < end, seen
            if select.select([self.terminal], [], [], 1)[0]:
                seen += os.read(self.terminal, 65536).decode(errors="replace")
        return found

    def close(self):
        os.close(self.terminal)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, 9)
        os.waitpid(self.pid, 0)


def zsh_completes(path, line, tmp_path):
    """The command line after a tab at its end."""
    shown = "show() { print -r -- \"<<$BUFFER>>\"; zle reset-prompt }; zle -N show; bindkey '^G' show"
    terminal = Terminal(["zsh", "-f", "-i"], tmp_path)
    try:
        terminal.type(f"PS1='prompt: '; autoload -Uz compinit && compinit -u -D; source {path}; {shown}; print rea''dy\n")
        terminal.read_until(r"ready.*prompt: ")  # from then on it reads keys
        terminal.type(f"{line}\t\a")
        return terminal.read_until(r"<<([^\r\n]*)>>")[1]
    finally:
        terminal.close()


# ---- completion --------------------------------------------------------------------------------

@pytest.mark.parametrize("shell, only_look", [("bash", ["-n"]), ("zsh", ["-f", "-n"]), ("fish", ["--no-execute"])])
def test_the_shell_takes_its_script(shell, only_look, tmp_path):
    if shell != "bash":
        jobs.need(shell)
    assert said([shell, *only_look, script(tmp_path, shell)], tmp_path) == ""


def test_every_script_names_all_commands_and_options(tmp_path):
    scripts = {shell: script(tmp_path, shell).read_text() for shell in SHELLS}
    listed = re.findall(r"^  (\w+)", jobs.commtap("--help").stdout.partition("commands:\n")[2].partition("\n\n")[0], re.M)
    assert len(listed) > 20
    for command in listed:
        options = re.findall(r"^ +(?:-\w, )?--([\w-]+)", jobs.commtap(command, "--help").stdout.partition("\noptions:\n")[2], re.M)
        assert len(options) >= 2
        ours = scripts["zsh"].partition(f"\n    {command})\n")[2].partition(";;\n")[0]
        for option in options:
            assert f"complete -c commtap -n '__commtap_is {command}' -l {option} " in scripts["fish"]
            assert re.search(rf"--{option}[=}}']", ours), (command, option)


def test_what_there_is_no_shell_for():
    assert jobs.commtap("--completion").stdout == jobs.commtap("--completion", "bash").stdout
    done = jobs.commtap("--completion", "tcsh", codes=(2,))
    assert done.stdout == "" and "tcsh" in done.stderr


def test_bash_completes(tmp_path):
    path = script(tmp_path, "bash")
    assert bash_offers(path, "commtap sum", tmp_path) == {"summary"}
    assert bash_offers(path, "commtap report --format ", tmp_path) == {"text", "json"}
    assert bash_offers(path, "commtap prune --old", tmp_path) == {"--older-than"}
    assert bash_offers(path, "commtap top --sort wait", tmp_path) >= {"wait_share", "waits_for"}
    for command in ("links", "steps", "stragglers", "summary"):
        for key in bash_offers(path, f"commtap {command} --sort ", tmp_path):
            assert "no column" not in jobs.commtap(command, "--sort", key, tmp_path / "nowhere", codes=(2, 3)).stderr
    assert bash_offers(path, "commtap summary --by op,co", tmp_path) == {"op,comm"}
    assert bash_offers(path, "commtap summary --by = ra", tmp_path) == {"rank"}
    assert bash_offers(path, "commtap report --format =", tmp_path) == {"text", "json"}
    assert bash_offers(path, "commtap report --fail-on straggl", tmp_path) == {"straggler"}
    for option in "-e", "--env":
        assert bash_offers(path, f"commtap run {option} COMMTAP_MIN", tmp_path) == {"COMMTAP_MIN_SECONDS="}
    (tmp_path / "dumps").mkdir(exist_ok=True)
    assert bash_offers(path, "commtap ctl dum", tmp_path) == {"dumps"}
    for before in ("dumps", "--wait 3 dumps", "dumps --wait = 3 --rank 0"):
        assert bash_offers(path, f"commtap ctl {before} ", tmp_path) == set(ORDERS)
        for order, words in ORDERS.items():
            assert bash_offers(path, f"commtap ctl {before} {order} ", tmp_path) == words


def test_fish_completes(tmp_path):
    jobs.need("fish")
    path = script(tmp_path, "fish")
    (tmp_path / "dumps").mkdir()
    assert fish_offers(path, "commtap sum", tmp_path) == {"summary"}
    assert fish_offers(path, "commtap report --format ", tmp_path) == {"text", "json"}
    assert fish_offers(path, "commtap prune --old", tmp_path) == {"--older-than"}
    assert "wait_share" in fish_offers(path, "commtap top --sort ", tmp_path)
    assert fish_offers(path, "commtap summary --by op,co", tmp_path) == {"op,comm"}
    assert fish_offers(path, "commtap run -e COMMTAP_MIN", tmp_path) == {"COMMTAP_MIN_SECONDS="}
    assert fish_offers(path, "commtap report --fail-on straggl", tmp_path) == {"straggler"}
    assert "--older-than" not in fish_offers(path, "commtap report --", tmp_path)
    assert "dumps/" in fish_offers(path, "commtap report ", tmp_path)
    assert "dumps/" in fish_offers(path, "commtap run -o du", tmp_path)
    assert "true" in fish_offers(path, "commtap run -o dumps -- tru", tmp_path)
    assert "dumps/" in fish_offers(path, "commtap ctl ", tmp_path)
    for before in ("dumps", "--wait 3 dumps", "dumps --wait=3 --rank 0"):
        assert fish_offers(path, f"commtap ctl {before} ", tmp_path) == set(ORDERS)
        for order, words in ORDERS.items():
            assert fish_offers(path, f"commtap ctl {before} {order} ", tmp_path) == words


@pytest.mark.parametrize("typed, completed", [("commtap summ", "commtap summary "), ("commtap report --forma", "commtap report --format="),
                                              ("commtap report --format=j", "commtap report --format=json "),
                                              ("commtap prune --old", "commtap prune --older-than="),
                                              ("commtap top --sort wait_s", "commtap top --sort wait_share "),
                                              ("commtap summary --by op,com", "commtap summary --by op,comm,"),  # the last comma goes where a blank follows
                                              ("commtap run -e COMMTAP_MIN", "commtap run -e COMMTAP_MIN_SECONDS="),
                                              ("commtap report --fail-on straggl", "commtap report --fail-on straggler "),
                                              ("commtap report dum", "commtap report dumps/"),
                                              ("commtap run -o dum", "commtap run -o dumps/"),
                                              ("commtap run -o dumps only-h", "commtap run -o dumps only-here "),
                                              ("commtap run -o dumps -- only-h", "commtap run -o dumps -- only-here "),
                                              ("commtap doctor only-here du", "commtap doctor only-here dumps/"),
                                              ("commtap ctl dum", "commtap ctl dumps/"),
                                              ("commtap ctl dumps sn", "commtap ctl dumps snapshot "),
                                              ("commtap ctl --wait 3 dumps res", "commtap ctl --wait 3 dumps resume "),
                                              ("commtap ctl dumps verbose of", "commtap ctl dumps verbose off "),
                                              ("commtap ctl dumps stack na", "commtap ctl dumps stack native ")])
def test_zsh_completes(typed, completed, tmp_path):
    jobs.need("zsh")
    (tmp_path / "dumps").mkdir()
    program = tmp_path / "bin" / "only-here"
    program.parent.mkdir()
    program.touch(0o755)
    assert zsh_completes(script(tmp_path, "zsh"), typed, tmp_path) == completed


def test_scripts_lie_where_shells_look(installed):
    share = installed / "opt" / "x" / "share"
    for shell, place in (("bash", "bash-completion/completions/commtap"), ("zsh", "zsh/site-functions/_commtap"),
                         ("fish", "fish/vendor_completions.d/commtap.fish")):
        assert (share / place).read_text() == jobs.commtap("--completion", shell).stdout
    assert (share / "zsh/site-functions/_commtap").read_text().startswith("#compdef commtap\n")


# ---- the library and the header ----------------------------------------------------------------

def test_the_library_is_found_where_it_was_put(installed, tmp_path):
    prefix = installed / "opt" / "x"
    assert (prefix / "lib64" / "libcommtap.so").exists() and not (prefix / "lib").exists()
    done = subprocess.run([prefix / "bin" / "commtap", "run", "-o", tmp_path / "dumps", "--", "printenv", "LD_PRELOAD"],
                          capture_output=True, text=True, env=jobs.clean_environment(), timeout=60)
    assert done.stdout.split(":")[0].strip() == str((prefix / "lib64" / "libcommtap.so").resolve())
    module = (prefix / "share" / "commtap" / "modulefile").read_text()
    assert f"LIBCOMMTAP {PREFIX}/lib64/libcommtap.so\n" in module


def test_pkg_config_tells_of_the_dump_format(installed, tmp_path):
    jobs.need("pkgconf")
    where = {**jobs.clean_environment(), "PKG_CONFIG_PATH": str(installed / "opt" / "x" / "share" / "pkgconfig"),
             "PKG_CONFIG_SYSROOT_DIR": str(installed)}

    def tell(*words):
        return subprocess.run(["pkg-config", *words, "commtap-format"], env=where, check=True, capture_output=True, text=True).stdout.split()

    source = tmp_path / "reader.c"
    source.write_text("#include <stdio.h>\n#include <commtap/format.h>\nint main(void) {\n"
                      'printf("%u.%u %s", FORMAT_MAJOR, FORMAT_MINOR, FORMAT_FILE_SUFFIX);\nreturn 0; }\n')
    for compiler in ["gcc"], ["g++", "-x", "c++"]:
        line = [*compiler, "-Wall", "-Werror", *tell("--cflags"), source, "-o", tmp_path / "reader"]
        subprocess.run(line, check=True, timeout=60)
        printed = subprocess.run([tmp_path / "reader"], capture_output=True, text=True).stdout
        assert printed.split() == [*tell("--modversion"), ".ct"]


# ---- packages ----------------------------------------------------------------------------------

PACKAGING = jobs.ROOT / "packaging"
VERSION = re.search(r"^VERSION := (\S+)$", (jobs.ROOT / "Makefile").read_text(), re.M)[1]


@pytest.mark.parametrize("file, says", [("commtap.spec", r"^Version: +(\S+)$"), ("debian/changelog", r"\Acommtap \((\S+)\)"),
                                        ("spack/packages/commtap/package.py", r'version\("([^"]+)"'),
                                        ("spack/packages/commtap/package.py", r"commtap-([\d.]+)\.tar\.gz")])
def test_all_packages_are_of_one_version(file, says):
    assert re.search(says, (PACKAGING / file).read_text(), re.M)[1] == VERSION
    assert jobs.commtap("--version").stdout == f"commtap {VERSION}\n"


def test_an_rpm_has_all_that_is_installed(installed):
    """And nothing is named that is not: rpmbuild would refuse both."""
    places = {"bindir": "bin", "libdir": "lib64", "includedir": "include", "datadir": "share", "mandir": "share/man"}
    listed = re.findall(r"^%{_(\w+)}/(\S+)$", (PACKAGING / "commtap.spec").read_text().partition("\n%files\n")[2], re.M)
    patterns = [f"{places[macro]}/{path}" for macro, path in listed]
    patterns = [pattern.replace("lib64/commtap/", "lib64/") for pattern in patterns]  # LIBDIR is one folder deeper there
    prefix = installed / "opt" / "x"
    files = {str(path.relative_to(prefix)) for path in prefix.rglob("*") if path.is_file()}
    files = {file for file in files if not file.startswith("bin/commtap-mpi.")}  # the package is built with MPIS=
    taken = {pattern: {file for file in files if fnmatch.fnmatch(file, pattern + "*" * pattern.endswith("/"))} for pattern in patterns}
    assert len(taken) > 8 and [pattern for pattern in taken if not taken[pattern]] == []
    assert files == set().union(*taken.values())


@pytest.mark.parametrize("file", ["Dockerfile", "commtap.def"])
def test_containers_name_packages_of_the_build(file):
    """They cannot be built in a test: no image is at hand. What they call is there."""
    text = (PACKAGING / file).read_text()
    assert "scripts/install-deps --list --for build" in text and "make install PREFIX=/opt/commtap" in text
    further = re.search(r"--for build\)[\s\\]+([\w\s-]+?)\n(?:RUN|    make)", text)[1].split()
    table = (jobs.ROOT / "scripts" / "install-deps").read_text()
    assert further == ["libsqlite3-dev", "libzstd-dev", "node-d3"] and all(f"\n{package} " in table for package in further)


def test_the_spack_recipe_and_debians_rules_are_sound():
    compile((PACKAGING / "spack" / "packages" / "commtap" / "package.py").read_text(), "package.py", "exec")
    jobs.need("make")
    done = subprocess.run(["make", "-n", "-f", PACKAGING / "debian" / "rules", "override_dh_auto_install"], capture_output=True, text=True)
    assert done.returncode == 0 and "LIBDIR=/usr/lib/commtap" in done.stdout
