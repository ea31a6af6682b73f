"""Finds out which notification of a fault run has which id, if its sender did not choose it and no device told it."""

# What speaks against a pair or a gap, in seconds by which the id would have to be late instead.
LATE, EARLY, LOST_LINE, NO_LINE, NOBODY = 5, 100, 3, 50, 60
# More than a pair that is late, and less than two.
OTHERS = 6
# Seconds by which two clocks may differ.
TOLERANCE = 0.1


def assign(ids, entries, may_lack_line):
    """Yields pairs of an id and its entry, or None if nobody sent it.

    Ids are tuples of time, id and states. What must not be stored is known by its end. A node that was frozen may have
    no other end for what had to be stored."""
    passing = [one for one in ids if one[2] == ["Discarded - Not Stored"]]
    others = [one for one in ids if one not in passing]
    # Nor may one that was killed before it was stored, so what is left over here is looked for among the others.
    for one, entry in align(passing, [entry for entry in entries if not entry.is_stored], may_lack_line, OTHERS):
        if entry is None:
            others.append(one)
        else:
            yield one[1], entry
    for one, entry in align(others, [entry for entry in entries if entry.is_stored], may_lack_line):
        yield one[1], entry


def align(ids, entries, may_lack_line, nobody=NOBODY):
    """Puts both in the order of time and compares them like two texts, so that what speaks against all pairs and gaps
    together is least: a notification is received soon after it was sent and never before, and each accepted one has an
    id, unless the lines of its node's end are lost."""
    ids = sorted(ids, key=lambda one: one[0])
    entries = sorted(entries, key=lambda entry: entry.sent_time)
    gaps = [gap(entry, may_lack_line) for entry in entries]
    # For each number of ids, what speaks against the best way to get there with each number of entries.
    rows = [[0.0]]
    for cost in gaps:
        rows[0].append(rows[0][-1] + cost)
    for one in ids:
        before, row = rows[-1], [rows[-1][0] + nobody]
        for place, entry in enumerate(entries):
            row.append(min(before[place] + pair(one, entry), row[place] + gaps[place], before[place + 1] + nobody))
        rows.append(row)
    count, place = len(ids), len(entries)
    while count:
        one, cost = ids[count - 1], rows[count][place]
        if place and cost == rows[count][place - 1] + gaps[place - 1]:
            place -= 1
            continue
        count -= 1
        if place and cost == rows[count][place - 1] + pair(one, entries[place - 1]):
            place -= 1
            yield one, entries[place]
        else:
            yield one, None


def gap(entry, may_lack_line):
    if entry.outcome != "accepted":
        return 0
    return LOST_LINE if may_lack_line(entry) else NO_LINE


def pair(one, entry):
    late = one[0] - entry.sent_time
    return EARLY if late < -TOLERANCE else min(abs(late), LATE)
