"""Run a command in the project's own environment, after making sure that it is there.

    python3 scripts/bootstrap.py [--java] [--extra EXTRA] COMMAND [ARGUMENT ...]

The environment is the virtual environment `.venv` in the checkout, with the project
(editable, with its `dev` extra, or a smaller one where that is enough) in it; `--java` adds a Java
that Spark supports.
When all is in place nothing is installed, and no network is needed.
This file uses the standard library only and runs on Linux and macOS.
"""

import argparse
import contextlib
import fcntl
import glob
import hashlib
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

if sys.version_info < (3, 11):  # noqa: UP036 - users start this file with any Python 3
    sys.exit(
        f"bootstrap: {sys.executable} is Python {platform.python_version()} but bsjoin needs 3.11 "
        "or newer: install one and name it, for example `make test PYTHON=python3.12`."
    )

ROOT = Path(__file__).resolve().parent.parent
PYPROJECT = ROOT / "pyproject.toml"
VENV = ROOT / ".venv"
VENV_PYTHON = VENV / "bin" / "python"
STAMP = VENV / "bsjoin-installed"
EVERYTHING = "dev"

JAVA_VERSIONS = ("17", "21")
JAVA_HOMES = (
    "/usr/lib/jvm/*",
    "/opt/java/*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "~/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "/opt/homebrew/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "/usr/local/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "~/.sdkman/candidates/java/*",
)
# What to install with which package manager; the first package that can be had is enough.
JAVA_PACKAGES = {
    "apt-get": ["openjdk-17-jdk-headless", "openjdk-21-jdk-headless"],
    "dnf": ["java-17-openjdk-devel", "java-21-openjdk-devel"],
    "brew": ["openjdk@17", "openjdk@21"],
}
VENV_PACKAGES = {"apt-get": [f"python3.{sys.version_info.minor}-venv"]}


def say(message: str) -> None:
    """Tell the user what is going on, apart from the output of the command itself."""
    print(f"bootstrap: {message}", file=sys.stderr, flush=True)


def run(command: list[str], env: dict[str, str] | None = None, pass_fds: Sequence[int] = ()) -> int:
    """Run a command without input and return its exit status."""
    stdin, stdout = subprocess.DEVNULL, sys.stderr
    return subprocess.call(
        command, cwd=ROOT, env=env, stdin=stdin, stdout=stdout, pass_fds=pass_fds
    )


def root_prefix() -> list[str] | None:
    """Return what to put before a command to run it as root; None if we may not."""
    if os.geteuid() == 0:
        return []
    if shutil.which("sudo") and run(["sudo", "-n", "true"]) == 0:
        return ["sudo", "-n"]
    return None


def install_system_package(choices: dict[str, list[str]]) -> bool:
    """Install one of the packages with the machine's package manager, if that is allowed."""
    for manager, packages in choices.items():
        if shutil.which(manager) is None:
            continue
        prefix = [] if manager == "brew" else root_prefix()
        if prefix is None:
            continue
        options = [] if manager == "brew" else ["-y"]
        if manager == "apt-get":
            prefix = [*prefix, "env", "DEBIAN_FRONTEND=noninteractive"]
            # Another bootstrap may be installing, too.
            options = ["-y", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=600"]
            run([*prefix, manager, "update"])
        for package in packages:
            say(f"installing {package} with {manager}")
            if run([*prefix, manager, "install", *options, package]) == 0:
                return True
    return False


def probe_java(executable: str) -> tuple[str, str] | None:
    """Ask a java executable for its version and home; None if it is not a working Java."""
    command = [executable, "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(command, capture_output=True, timeout=60, check=False).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    settings = dict(re.findall(r"(?m)^ +(java\.\S+) = (.+?)\s*$", os.fsdecode(answer)))
    if "java.home" not in settings:
        return None
    return settings["java.specification.version"], settings["java.home"]


def installed_javas() -> Iterator[tuple[str, str]]:
    """Yield version and home of this machine's Javas: JAVA_HOME, PATH, then the usual places."""
    executables = [shutil.which("java") or "java"]
    if os.environ.get("JAVA_HOME"):
        executables.insert(0, os.path.join(os.environ["JAVA_HOME"], "bin", "java"))
    for pattern in JAVA_HOMES:
        executables += sorted(glob.glob(os.path.join(os.path.expanduser(pattern), "bin", "java")))
    yield from filter(None, map(probe_java, executables))


def ensure_java(may_install: bool = True) -> str:
    """Return the home of a Java that Spark supports, installing one if need be and possible.

    It has a compiler, for the jar of the JVM runtime, unless none can be had.
    """
    needed = " or ".join(JAVA_VERSIONS)
    unsuitable = without_compiler = ""
    for version, home in installed_javas():
        if version not in JAVA_VERSIONS:
            unsuitable = f"only Java {version} in {home}"
        elif not os.path.exists(os.path.join(home, "bin", "javac")):
            without_compiler = without_compiler or home
        else:
            if unsuitable:
                say(f"using Java {version} in {home}, because Spark needs {needed}")
            return home
    if may_install and install_system_package(JAVA_PACKAGES):
        return ensure_java(may_install=False)
    if without_compiler:
        say(f"{without_compiler} has no javac for bsjoin's jar: joins run in Python workers only")
        return without_compiler
    sys.exit(
        f"bootstrap: Spark needs Java {needed} and this machine has {unsuitable or 'none'}: "
        "install one (Debian: openjdk-17-jdk-headless) or set JAVA_HOME to one."
    )


def ensure_venv(extra: str = EVERYTHING) -> None:
    """Bring `.venv` into the state that pyproject.toml asks for, whatever its state is.

    An environment with everything suffices for each extra, and never gets less.

    The stamp is removed first and written last: without it, what an interrupted
    installation left is not to be trusted, and `.venv` is made anew.
    """
    with exclusive() as lock:
        present = read_stamp()
        if present[2:] == [EVERYTHING]:
            extra = EVERYTHING
        wanted = [*wanted_stamp(), extra]
        if present == wanted:
            return
        usable = present[:1] == wanted[:1]
        if usable:
            STAMP.unlink()
        else:
            make_venv(lock)
        say("installing bsjoin and what it needs; the first time this takes some minutes")
        # The pip that comes with every supported Python is new enough for this.
        status = run_in_venv(["-m", "pip", "install", "--editable", f".[{extra}]"], lock)
        if status > 0 and usable:
            STAMP.write_text("\n".join(present))  # pip undid its changes
        if status != 0:
            sys.exit(
                f"bootstrap: pip ended with status {status} but what pyproject.toml lists is "
                "needed: see pip's message above, check the network and try again."
            )
        STAMP.write_text("\n".join(wanted))


@contextlib.contextmanager
def exclusive() -> Iterator[int]:
    """Keep other bootstraps of this checkout waiting; yield the lock's file descriptor."""
    with PYPROJECT.open("r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another bootstrap of this checkout")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()


def wanted_stamp() -> list[str]:
    """Describe the environment this checkout needs: its Python and place, then its content.

    Of pyproject.toml only what decides about the installation counts, so that a new
    setting for a linter installs nothing.
    """
    import tomllib  # here, because a Python that is too old has none

    settings = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))
    relevant = [settings["build-system"], settings["project"], settings["tool"].get("hatch")]
    content = hashlib.sha256(json.dumps(relevant, sort_keys=True).encode()).hexdigest()
    base = os.path.realpath(sys.base_prefix)
    return [f"{sys.implementation.cache_tag} {platform.machine()} {base} {VENV}", content]


def read_stamp() -> list[str]:
    """Return what the last finished installation wrote; nothing if `.venv` is not usable."""
    try:
        return STAMP.read_text().splitlines() if VENV_PYTHON.exists() else []
    except (OSError, ValueError):
        return []


def make_venv(lock: int) -> None:
    """Put a new virtual environment in the place of whatever is at `.venv`."""
    ensure_venv_modules()
    import venv  # here, because it may just have been installed

    say(f"making {VENV}")
    if VENV.is_dir() and not VENV.is_symlink():
        shutil.rmtree(VENV)
    else:
        VENV.unlink(missing_ok=True)
    # Not `python -m venv`: the running Python may be the one that was just removed.
    venv.EnvBuilder(symlinks=True).create(VENV)
    status = run_in_venv(["-m", "ensurepip", "--default-pip"], lock)
    if status != 0:
        sys.exit(f"bootstrap: ensurepip ended with status {status} in {VENV}: see above.")


def ensure_venv_modules() -> None:
    """Make sure that this Python can make virtual environments (Debian keeps that apart)."""
    complete = all(map(importlib.util.find_spec, ("venv", "ensurepip")))
    if not complete and not install_system_package(VENV_PACKAGES):
        sys.exit(
            f"bootstrap: {sys.executable} has no venv or no ensurepip but makes `.venv` with "
            f"them: install {VENV_PACKAGES['apt-get'][0]}, or name another Python with PYTHON=."
        )
    importlib.invalidate_caches()


def run_in_venv(arguments: list[str], lock: int) -> int:
    """Run `.venv`'s Python and return its exit status.

    It holds the lock too: should it outlive us, nobody touches `.venv` before it ends.
    """
    return run([str(VENV_PYTHON), *arguments], command_environment(), [lock])


def own_environment() -> dict[str, str]:
    """Return the environment variables but those that lead to files of another Python or Spark."""
    foreign = {"PYTHONHOME", "PYTHONPATH", "SPARK_HOME"}
    variables = {name: value for name, value in os.environ.items() if name not in foreign}
    return variables | {"PIP_USER": "0"}


def command_environment() -> dict[str, str]:
    """Return the environment variables under which a command sees `.venv` and nothing else."""
    path = [str(VENV_PYTHON.parent), os.environ.get("PATH", os.defpath)]
    return own_environment() | {
        "PATH": os.pathsep.join(path),
        "PYSPARK_PYTHON": str(VENV_PYTHON),
        "VIRTUAL_ENV": str(VENV),
    }


def main() -> None:
    """Prepare the environment, then become the command."""
    parser = argparse.ArgumentParser(description="Run a command in the project's environment.")
    parser.add_argument("--java", action="store_true", help="the command needs Java")
    parser.add_argument(
        "--extra", default=EVERYTHING, help="what the command needs of pyproject.toml's extras"
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, help="the command, its arguments")
    arguments = parser.parse_args()
    if not arguments.command:
        parser.error("COMMAND is missing, for example: python -m pytest")

    variables = command_environment()
    if arguments.java:
        variables["JAVA_HOME"] = ensure_java()
    ensure_venv(arguments.extra)
    try:
        os.execvpe(arguments.command[0], arguments.command, variables)
    except OSError as error:
        sys.exit(f"bootstrap: cannot run {arguments.command[0]!r}: {error.strerror}.")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
    except PermissionError as error:
        sys.exit(f"bootstrap: {error}, but you must be able to write to {ROOT}: make it yours.")
