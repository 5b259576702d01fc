"""Collectives read from HLO: loops, async pairs, groups, whole weight matrices."""

from __future__ import annotations

import pytest

from mlm_consistency.scoring.collectives import (
    Collective,
    bytes_by_kind,
    collectives_of,
    weight_gathers,
)

HLO = """\
HloModule step, is_scheduled=true

%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %r = f32[] add(%a, %b)
}

%fused (p: bf16[8,64]) -> bf16[8,256] {
  %p = bf16[8,64]{1,0} parameter(0)
  ROOT %ag = bf16[8,256]{1,0:T(8,128)(2,1)} all-gather(%p), channel_id=3, replica_groups={{0,1,2,3}}, dimensions={1}
}

%body (t: (s32[], f32[8,16])) -> (s32[], f32[8,16]) {
  %t = (s32[], f32[8,16]{1,0}) parameter(0)
  %x = f32[8,16]{1,0} get-tuple-element(%t), index=1
  %ar = f32[8,16]{1,0} all-reduce(%x), channel_id=1, replica_groups=[2,4]<=[8], to_apply=%sum
  %f = bf16[8,256]{1,0} fusion(%x), kind=kLoop, calls=%fused
  ROOT %out = (s32[], f32[8,16]{1,0}) tuple(%x, %ar)
}

%condition (t: (s32[], f32[8,16])) -> pred[] {
  %t = (s32[], f32[8,16]{1,0}) parameter(0)
  ROOT %less = pred[] constant(true)
}

ENTRY %main (p0: f32[8,16], p1: bf16[4,32]) -> f32[8,16] {
  %p0 = f32[8,16]{1,0} parameter(0)
  %p1 = bf16[4,32]{1,0} parameter(1)
  %ags = (bf16[4,32]{1,0}, bf16[16,32]{1,0:S(1)}) all-gather-start(%p1), replica_groups=[1,4]<=[4], dimensions={0}
  %agd = bf16[16,32]{1,0} all-gather-done(%ags)
  %rs = f32[2,16]{1,0} reduce-scatter(%p0), replica_groups={{0,1,2,3},{4,5,6,7}}, dimensions={0}, to_apply=%sum
  %w = (s32[], f32[8,16]{1,0}) while(%tuple), condition=%condition, body=%body, backend_config={"known_trip_count":{"n":"32"}}
  ROOT %r = f32[8,16]{1,0} get-tuple-element(%w), index=1
}
"""  # noqa: E501


@pytest.fixture(scope="module")
def found() -> list[Collective]:
    return collectives_of(HLO)


def test_bodies_of_loops_count_as_often_as_they_run(found):
    sums = [one for one in found if one.kind == "all-reduce"]
    assert sums == [Collective("all-reduce", (8, 16), 8 * 16 * 4, 32, 4)]
    assert bytes_by_kind(found)["all-reduce"] == 32 * 512


def test_a_loop_without_a_trip_count_runs_to_the_constant_of_its_condition():
    text = HLO.replace(', backend_config={"known_trip_count":{"n":"32"}}', "")
    text = text.replace("%less = pred[] constant(true)", "%less = pred[] compare(%t, %end)")
    text = text.replace("pred[] {\n", "pred[] {\n  %end = s32[]{:T(128)} constant(24)\n")
    assert [c.times for c in collectives_of(text) if c.kind == "all-reduce"] == [24]


def test_collectives_inside_fusions_of_loops_are_found(found):
    assert Collective("all-gather", (8, 256), 8 * 256 * 2, 32, 4) in found


def test_an_async_start_counts_its_result_alone_and_its_done_not_at_all(found):
    assert Collective("all-gather", (16, 32), 16 * 32 * 2, 1, 4) in found
    assert sum(one.shape == (16, 32) for one in found) == 1


def test_a_reduce_scatter_counts_what_it_takes(found):
    assert Collective("reduce-scatter", (8, 16), 8 * 16 * 4, 1, 4) in found


@pytest.mark.parametrize(
    ("groups", "size"),
    [
        ("{{0,1},{2,3}}", 2),
        ("[2,4]<=[8]", 4),
        ("[2,4]<=[4,2]T(1,0)", 4),
        ("mesh['x'=2,'y'=1,'z'=4] {'z'}", 4),
        ("mesh['x'=2,'y'=4], device_ids=([2,4]T(1,0)) {'x','y'}", 8),
        ("mesh['x'=8] {'x':(1)2}", 2),
        ("{}", 0),
    ],
)
def test_groups_are_read_in_every_notation(groups, size):
    line = f"  %a = f32[8,16]{{1,0}} all-reduce(%p), channel_id=1, replica_groups={groups}, x=%y"
    found = collectives_of(f"ENTRY %main () -> f32[] {{\n{line}\n}}\n")
    assert [one.group for one in found] == [size]


def test_traffic_of_a_ring():
    assert Collective("all-reduce", (4,), 16, 2, 4).traffic == pytest.approx(2 * 16 * 2 * 3 / 4)
    assert Collective("all-gather", (4,), 16, 1, 4).traffic == pytest.approx(16 * 3 / 4)
    assert Collective("collective-permute", (4,), 16, 1, 0).traffic == pytest.approx(16)


@pytest.mark.parametrize("shape", [(256, 64), (64, 256), (1, 64, 256), (3, 64, 256)])
def test_gathers_of_whole_matrices_are_recognised_in_any_order(shape):
    gather = Collective("all-gather", shape, 1, 1, 4)
    assert weight_gathers([gather], [(3, 64, 256)]) == [gather]


@pytest.mark.parametrize(
    "one",
    [Collective("all-gather", (64, 128), 1, 1, 4), Collective("all-reduce", (64, 256), 1, 1, 4)],
)
def test_parts_of_matrices_and_other_kinds_are_not(one):
    assert weight_gathers([one], [(3, 64, 256)]) == []
