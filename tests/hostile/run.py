# SPDX-License-Identifier: MIT
"""Hostile checkpoints against the program: each must end with status 2 (inspect may say 1 where
the files can be read but do not fit), a message of one line, little memory and little time.

The bad inputs of the list "inputs" must end with their status, likewise.

usage: run.py PROGRAM FOLDER RSS_LIMIT_MB SECONDS, after make.py has filled FOLDER. A started
program begins with the memory of this one on its record, so that this one stays small.
"""
import json
import os
import sys


def run(program, args, work):
    """(status, stderr, largest resident set in MB, seconds of processor time)"""
    out, err = os.path.join(work, ".out"), os.path.join(work, ".err")
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
        (os.POSIX_SPAWN_OPEN, 2, err, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
    ]
    command = ["/usr/bin/timeout", "20", program] + args
    pid = os.posix_spawn(command[0], command, os.environ, file_actions=actions)
    _, status, usage = os.wait4(pid, 0)
    seconds = usage.ru_utime + usage.ru_stime  # a hang is ended by timeout, status 124
    with open(err, "rb") as f:
        message = f.read()
    return os.waitstatus_to_exitcode(status), message, usage.ru_maxrss / 1024, seconds


def faults(command, result, allowed, limits):
    """What is wrong with one run, in words."""
    status, message, rss, seconds = result
    if status not in allowed:
        yield f"status {status}, expected {' or '.join(map(str, sorted(allowed)))}"
    if status != 0:
        if not message.startswith(f"kvref {command}: ".encode()) or message.count(b"\n") != 1:
            yield "the message is not one line"
        if any(b < 32 for b in message[:-1]) or len(message) > 700:
            yield "the message holds control bytes or is long"
        try:
            message.decode()
        except UnicodeDecodeError:
            yield "the message is not UTF-8"
    if not rss <= limits[0]:
        yield f"{rss:.0f} MB resident"
    if not seconds <= limits[1]:
        yield f"{seconds:.2f} s"


def every(work, codes):
    """(title, arguments, statuses allowed) of every run"""
    for line in open(os.path.join(work, "cases"), encoding="utf-8"):
        folder, wanted, name = line.rstrip("\n").split("\t")
        folder = os.path.join(work, folder)
        inspect = {int(s) for s in wanted.split(",")}
        speak = {0} if inspect == {0} else {2}
        options = ["--text", "Hi", "-o", codes, "--max-new-tokens", "3", "--threads", "1"]
        yield name, ["inspect", folder], inspect
        yield name, ["generate", "--model", folder] + options, speak
    for line in open(os.path.join(work, "inputs"), encoding="utf-8"):
        name, args, status = json.loads(line)
        yield name, args, {status}


def main():
    program, work = sys.argv[1:3]
    limits = (float(sys.argv[3]), float(sys.argv[4]))
    codes = os.path.join(work, "codes.npy")
    worst, n_bad, n_run, titles = [0, 0], 0, 0, set()
    for name, args, allowed in every(work, codes):
        result = run(program, args, work)
        wrong = list(faults(args[0], result, allowed, limits))
        if os.path.exists(codes) != (args[0] != "inspect" and result[0] == 0):
            wrong.append("output file does not agree with the status")
        if os.path.exists(codes):
            os.unlink(codes)
        worst = [max(worst[0], result[2]), max(worst[1], result[3])]
        n_run += 1
        titles.add(name)
        if wrong:
            n_bad += 1
            print(f"not ok {args[0]} {name}: {'; '.join(wrong)}")
            print("    " + repr(result[1][:300]))
    if os.path.exists("owned"):
        n_bad += 1
        print("not ok a pickle was executed")
    print(f"{len(titles)} checkpoints and inputs, {n_run} runs, {n_bad} wrong; worst {worst[0]:.0f} MB, {worst[1]:.2f} s")
    sys.exit(1 if n_bad else 0)


main()
