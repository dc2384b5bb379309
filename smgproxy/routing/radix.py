"""A radix tree that remembers which holders saw which prompts.

Each node is a piece of text, its edge, and knows who holds everything from the root
to the edge's end.

Eviction is exact and scans nothing. Recording a prompt stamps its whole path with one
number, so a holder's stamps never grow on the way down. The list of records keeps the
last node of each in order of age. When the oldest still bears the stamp of that time,
nothing of its holder lives below: it goes, and with it the nodes above for as long as
they bear the same stamp. When it bears a later one, a longer record passed through it
since, which stands for it.
"""

from __future__ import annotations

from typing import Generic

from smgproxy.routing.slots import NONE, ROOT, Slots, Text, common

# A prompt that passes through more nodes is known up to here only: somebody who sends
# every prefix of one long prompt must not make everybody's walk long.
MAX_DEPTH = 128
# What a node costs in memory, in characters; without it empty prompts would be free.
CHARACTERS_PER_NODE = 64
_FEWEST_NODES = 1024
# Part of the budget by which records may pass it before they have to evict.
_SLACK = 8
# A long record takes no more than this part of the budget, so that making room for it
# cannot take long.
_SHARE_OF_RECORD = 64
_SHORT = 1 << 17
_CHARACTER_BITS = 21
# Work is counted in nodes that are let go or joined. As much is copying so many
# elements, or looking at so many slots.
_ELEMENTS_COPIED = 4096
_SLOTS_LOOKED_AT = 8
# The evicting that one record may cause, and one more for so many elements it adds.
_WORK_OF_RECORD = 64
_ELEMENTS_OF_WORK = 512


class Match(Generic[Text]):
    """How far a text is known: ``matched`` elements, the last ``cut`` in ``node``.

    Good until the tree changes or is asked again. ``text`` is what of it the tree would
    remember.
    """

    __slots__ = ("text", "node", "matched", "cut", "depth")

    def __init__(self) -> None:
        self.text: Text
        self.node = self.matched = self.cut = self.depth = 0


class RadixTree(Generic[Text]):
    """Texts by their holders, which are numbers of 0 and above, never used twice.

    ``size`` is the number of elements, a prefix counted once for each of its holders.
    ``evict`` brings it down to ``budget``; whoever records pays for evictions only
    when that did not happen in time. Edges begin and end at multiples of ``page``.
    """

    __slots__ = (
        *("budget", "size", "sizes", "_page", "longest", "_children", "_slots"),
        *("_nodes", "_hard", "_hard_nodes", "_more", "_stamp", "_gone"),
        *("_cursor", "_work", "_found"),
    )

    def __init__(self, budget: int, page: int = 1) -> None:
        self.budget = budget
        self.size = 0
        self.sizes: dict[int, int] = {}  # by holder
        self._page = page
        self._nodes = max(budget // CHARACTERS_PER_NODE, _FEWEST_NODES)
        self._hard = budget + budget // _SLACK
        self._hard_nodes = self._nodes + self._nodes // _SLACK
        # What is behind this is not remembered.
        longest = max(budget // _SHARE_OF_RECORD, min(budget, _SHORT))
        self.longest = longest - longest % page
        # By parent and first page of the edge, put together into one number.
        self._children: dict[int, int] = {}
        self._slots: Slots[Text] = Slots()
        # The further holders of a node, with their slots; few nodes have any.
        self._more: dict[int, dict[int, int]] = {}
        self._stamp = 0
        # Holders that left but still stand in slots, and where the clearing is.
        self._gone: set[int] = set()
        self._cursor = ROOT
        self._work = 0
        self._found: Match[Text] = Match()  # one for all, as every pick has one

    def __len__(self) -> int:
        """Nodes, and holders of nodes beyond the first."""
        return self._slots.used

    # -- looking up ---------------------------------------------------------------

    def match(self, text: Text) -> Match[Text]:
        """The longest prefix of ``text`` that is known, in whole pages."""
        children, edges, page = self._children, self._slots.edges, self._page
        whole = len(text)
        if whole > self.longest or whole % page:
            whole = min(whole - whole % page, self.longest)
            text = text[:whole]
        node = matched = depth = cut = 0
        while matched < whole and depth < MAX_DEPTH:
            if isinstance(text, str):  # as _key() has it, without the call
                key = node << _CHARACTER_BITS | ord(text[matched])
            else:
                key = _key(node, text[matched : matched + page])
            child = children.get(key)
            if child is None:
                break
            edge = edges[child]
            assert edge is not None
            node = child
            depth += 1
            if text.startswith(edge, matched):
                cut = len(edge)
                matched += cut
                continue
            cut = common(edge, text, matched)
            cut -= cut % page
            matched += cut
            break
        found = self._found
        found.text, found.node, found.depth = text, node, depth
        found.matched, found.cut = matched, cut
        return found

    def holders(self, found: Match[Text]) -> tuple[list[int], int]:
        """Who holds what was matched, and how much that is.

        What only holders who left know of counts as not matched.
        """
        slots, more, gone = self._slots, self._more, self._gone
        node, matched, cut = found.node, found.matched, found.cut
        while node:
            held = [slots.holders[node]]
            if node in more:
                held.extend(more[node])
            if gone or held[0] == NONE:
                held = [one for one in held if one != NONE and one not in gone]
            if held:
                return held, matched
            matched -= cut
            node = slots.parents[node]
            cut = slots.length(node)
        return [], 0

    # -- recording ----------------------------------------------------------------

    def record(self, found: Match[Text], holder: int) -> None:
        """``holder`` has the whole text now. The match must be of this moment."""
        text = found.text
        added = len(text) - found.matched
        if self._is_full():
            # Nobody swept in time. This bounds the memory, whatever is sent.
            self.evict(_WORK_OF_RECORD + added // _ELEMENTS_OF_WORK)
            if self._is_full():
                return
            found = self.match(text)
            added = len(text) - found.matched
        node, slots = found.node, self._slots
        edge = slots.edges[node]
        if edge is not None and found.cut < len(edge):
            node = self._split(node, found.cut)
        if added and found.depth < MAX_DEPTH:
            node = self._extend(node, text[found.matched :], holder)
        # When this was the latest record already, its path bears the latest stamp.
        is_latest = node == slots.older[ROOT] and slots.ages[node] == self._stamp
        if node and not (is_latest and slots.holders[node] == holder):
            self._touch(node, holder)

    def _touch(self, node: int, holder: int) -> None:
        """Stamp the path up from ``node``, where the record ends."""
        slots, more = self._slots, self._more
        holders, stamps, parents = slots.holders, slots.stamps, slots.parents
        self._stamp = stamp = self._stamp + 1
        end = NONE
        while node:
            if holders[node] == holder:
                slot = node
            else:
                others = more.get(node)
                if others is None or holder not in others:
                    slot = self._hold(node, holder)
                else:
                    slot = others[holder]
            stamps[slot] = stamp
            if end == NONE:
                end = slot
            node = parents[node]
        slots.renew(end, stamp)

    def _hold(self, node: int, holder: int) -> int:
        """Make ``holder`` one of those of ``node``; its slot."""
        edge = self._slots.edges[node]
        assert edge is not None
        self.size += len(edge)
        self.sizes[holder] = self.sizes.get(holder, 0) + len(edge)
        return self._seat(node, holder)

    def _seat(self, node: int, holder: int) -> int:
        slots = self._slots
        slot = node
        if slots.holders[node] != NONE:
            slot = slots.take(None, node)
            self._more.setdefault(node, {})[holder] = slot
        slots.holders[slot] = holder
        return slot

    def _find(self, node: int, holder: int) -> int | None:
        if self._slots.holders[node] == holder:
            return node
        more = self._more.get(node)
        return None if more is None else more.get(holder)

    def _extend(self, node: int, rest: Text, holder: int) -> int:
        """Put ``rest`` behind ``node``: into its own edge if nobody else is there."""
        slots = self._slots
        edge = slots.edges[node]
        is_alone = slots.holders[node] == holder and node not in self._more
        if edge is not None and is_alone and not slots.kids[node]:
            slots.edges[node] = edge + rest
            self.size += len(rest)
            self.sizes[holder] += len(rest)
            return node
        leaf = slots.take(rest, node)
        self._adopt(node, leaf, rest)
        return leaf

    def _split(self, node: int, cut: int) -> int:
        """Cut an edge in two; the upper part is a new node with the same holders."""
        slots = self._slots
        edge = slots.edges[node]
        assert edge is not None
        parent = slots.parents[node]
        upper = slots.take(edge[:cut], parent)
        self._children[self._key(parent, edge)] = upper
        slots.kid_sums[parent] += upper - node
        slots.edges[node] = lower = edge[cut:]
        slots.parents[node] = upper
        self._adopt(upper, node, lower)
        seats = dict(self._more.get(node, ()))
        if slots.holders[node] != NONE:
            seats[slots.holders[node]] = node
        for holder, seat in seats.items():
            # Who left is being cleared away, and may be behind the clearing here.
            if holder not in self._gone:
                slots.stamps[self._seat(upper, holder)] = slots.stamps[seat]
        return upper

    def _adopt(self, parent: int, child: int, edge: Text) -> None:
        self._children[self._key(parent, edge)] = child
        self._slots.kids[parent] += 1
        self._slots.kid_sums[parent] += child

    def _key(self, parent: int, edge: Text) -> int:
        return _key(parent, edge[: self._page])

    # -- forgetting ---------------------------------------------------------------

    def _is_full(self) -> bool:
        return self.size > self._hard or self._slots.used > self._hard_nodes

    @property
    def is_over(self) -> bool:
        """Whether there is more than the budget allows."""
        return self.size > self.budget or self._slots.used > self._nodes

    def evict(self, most: int) -> bool:
        """Drop the oldest records until within budget, or so much work is done.

        Whether there is still more than the budget allows.
        """
        newer = self._slots.newer
        end = self._work + most
        while self._work < end and newer[ROOT] and self.is_over:
            self._evict_oldest(newer[ROOT])
        return bool(newer[ROOT]) and self.is_over

    def _evict_oldest(self, slot: int) -> None:
        slots = self._slots
        holder, stamp = slots.holders[slot], slots.stamps[slot]
        if slots.ages[slot] != stamp:
            self._work += 1
            slots.unlink(slot)
            return
        node = slot if slots.edges[slot] is not None else slots.parents[slot]
        while True:
            parent = slots.parents[node]
            self._release(node, holder, slot)
            # The parent may have gone with it, or been joined to another child.
            if parent == ROOT or slots.edges[parent] is None:
                return
            found = self._find(parent, holder)
            if found is None or slots.stamps[found] != stamp:
                return
            node, slot = parent, found

    def _release(self, node: int, holder: int, slot: int) -> None:
        """``holder``, whose slot it is, holds ``node`` no more."""
        slots = self._slots
        slots.unlink(slot)
        slots.holders[slot] = NONE
        if holder not in self._gone:
            length = slots.length(node)
            self.size -= length
            self.sizes[holder] -= length
        if slot != node:
            slots.free(slot)
            more = self._more[node]
            del more[holder]
            if not more:
                del self._more[node]
        self._tidy(node)

    def _tidy(self, node: int) -> None:
        """Drop a node that nobody holds; join one to its only child if they agree."""
        slots = self._slots
        self._work += 1
        while node and not slots.kids[node]:
            if slots.holders[node] != NONE or node in self._more:
                return
            edge, parent = slots.edges[node], slots.parents[node]
            assert edge is not None
            del self._children[self._key(parent, edge)]
            slots.kids[parent] -= 1
            slots.kid_sums[parent] -= node
            slots.free(node)
            self._work += 1
            node = parent
        if node and slots.kids[node] == 1:
            self._join(node, slots.kid_sums[node])

    def _join(self, node: int, child: int) -> None:
        """Merge a node into its only child when one record made both."""
        slots = self._slots
        upper, lower = slots.edges[node], slots.edges[child]
        assert upper is not None and lower is not None
        if (
            slots.holders[node] != slots.holders[child]
            or slots.stamps[node] != slots.stamps[child]
            or node in self._more
            or child in self._more
        ):
            return
        parent = slots.parents[node]
        del self._children[self._key(node, lower)]
        self._children[self._key(parent, upper)] = child
        slots.kid_sums[parent] += child - node
        slots.edges[child] = joined = upper + lower
        self._work += 1 + len(joined) // _ELEMENTS_COPIED
        slots.parents[child] = parent
        slots.unlink(node)
        slots.holders[node] = NONE
        slots.free(node)

    def purge(self, holder: int) -> None:
        """The holder left: at once it counts for nothing. ``sweep`` clears the rest."""
        if holder in self.sizes:
            self.size -= self.sizes.pop(holder)
            self._gone.add(holder)
            self._cursor = ROOT

    def sweep(self, most: int) -> bool:
        """Clear so much of what holders that left still hold; whether there is more."""
        if not self._gone:
            return False
        slots = self._slots
        end = self._work + most
        for slot in range(self._cursor + 1, len(slots.edges)):
            holder = slots.holders[slot]
            if holder in self._gone:
                is_node = slots.edges[slot] is not None
                self._release(slot if is_node else slots.parents[slot], holder, slot)
            elif slot % _SLOTS_LOOKED_AT == 0:
                self._work += 1
            if self._work >= end:
                self._cursor = slot
                return True
        self._gone.clear()
        self._cursor = ROOT
        return False


def _key(parent: int, page: str | bytes) -> int:
    """One number for a parent and the first page of an edge, no two alike.

    Numbers are quicker than pairs to make, to hash and to compare, and smaller.
    """
    if isinstance(page, str):
        return parent << _CHARACTER_BITS | ord(page)
    return parent << 8 * len(page) | int.from_bytes(page, "little")
