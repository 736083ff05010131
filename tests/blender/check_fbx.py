"""Compares a .glb and an .fbx of the same clips inside Blender, through both FBX importers.

    python check_fbx.py CLIPS.glb CLIPS.fbx --bones N --compare Head,LeftHand [--fps 60] [--tolerance-mm 0.1]

Needs the `bpy` package. For every clip, the heads of the compared bones are taken in world space at five
instants from the .glb, and must be where the .fbx puts them. The armature must have scale 1 and N bones, and
there must be as many actions as in the .glb. Prints one line for each importer; exit code 1 where one is off.
"""

import argparse
import sys

import bpy


def reset(fps):
    bpy.ops.wm.read_factory_settings(use_empty=True)
    bpy.context.scene.render.fps = fps
    bpy.context.scene.render.fps_base = 1.0


def armature():
    found = [o for o in bpy.data.objects if o.type == "ARMATURE"]
    assert len(found) == 1, f"expected one armature, found {[o.name for o in found]}"
    return found[0]


def short_name(action):
    # The Python importer puts the object's name in front.
    return action.name.rsplit("|", 1)[-1]


def play(arm, action):
    arm.animation_data_create()
    for track in arm.animation_data.nla_tracks:
        track.mute = True
    for bone in arm.pose.bones:
        bone.matrix_basis.identity()
    arm.animation_data.action = action
    if getattr(action, "slots", None):
        arm.animation_data.action_slot = action.slots[0]


def heads(arm, bones, seconds, first_frame):
    scene = bpy.context.scene
    fps = scene.render.fps / scene.render.fps_base
    frame = first_frame + seconds * fps
    scene.frame_set(int(frame), subframe=frame - int(frame))
    bpy.context.view_layer.update()
    return {name: (arm.matrix_world @ arm.pose.bones[name].matrix).translation.copy() for name in bones}


def poses(bones, first_frame, instants=None):
    """World positions by clip and instant; `instants` by clip, or five from the action's own length."""
    arm = armature()
    scene = bpy.context.scene
    fps = scene.render.fps / scene.render.fps_base
    out, times = {}, {}
    for action in bpy.data.actions:
        name = short_name(action)
        if instants is None:
            length = (action.frame_range[1] - first_frame) / fps
            times[name] = [length * part for part in (0.0, 0.2, 0.43, 0.75, 1.0)]
        else:
            times[name] = instants[name]
        play(arm, action)
        out[name] = [heads(arm, bones, t, first_frame) for t in times[name]]
    return out, times


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("glb")
    parser.add_argument("fbx")
    parser.add_argument("--bones", type=int, required=True)
    parser.add_argument("--compare", required=True)
    parser.add_argument("--fps", type=float, help="demand that the .fbx sets this frame rate")
    parser.add_argument("--tolerance-mm", type=float, default=0.1)
    args = parser.parse_args()
    bones = args.compare.split(",")

    reset(60)
    bpy.ops.import_scene.gltf(filepath=args.glb)
    expected, times = poses(bones, first_frame=0)
    assert expected, "no action in the .glb"

    failed = False
    importers = {
        "import_scene.fbx": lambda: bpy.ops.import_scene.fbx(filepath=args.fbx),
        "wm.fbx_import": lambda: bpy.ops.wm.fbx_import(filepath=args.fbx),
    }
    for label, load in importers.items():
        reset(24)
        try:
            # The Python importer is an add-on that may be off.
            if label == "import_scene.fbx":
                import addon_utils

                addon_utils.enable("io_scene_fbx", default_set=False)
            load()
            arm = armature()
            fps = bpy.context.scene.render.fps / bpy.context.scene.render.fps_base
            assert args.fps is None or abs(fps - args.fps) < 1e-3, f"expected {args.fps} fps, found {fps}"
            scale = arm.matrix_world.to_scale()
            assert all(abs(s - 1) < 1e-6 for s in scale), f"armature scale {tuple(scale)}"
            assert len(arm.data.bones) == args.bones, f"{len(arm.data.bones)} bones"
            names = sorted(short_name(a) for a in bpy.data.actions)
            assert names == sorted(expected), f"actions {names}, expected {sorted(expected)}"
            found, _ = poses(bones, first_frame=1, instants=times)
            worst = max(
                ((found[clip][i][bone] - expected[clip][i][bone]).length * 1000, clip, times[clip][i], bone)
                for clip in expected
                for i in range(len(times[clip]))
                for bone in bones
            )
            assert worst[0] <= args.tolerance_mm, "%.4f mm off in %s at %.3f s, %s" % worst
            rotation = tuple(round(a, 6) for a in arm.matrix_world.to_euler())
            print(f"{label}: ok, worst {worst[0]:.5f} mm; armature rotation {rotation}; fps {fps}")
        except AssertionError as error:
            failed = True
            print(f"{label}: {error}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
