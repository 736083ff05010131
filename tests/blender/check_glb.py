"""Imports GLBs into Blender and prints where bones stand.

Usage: python check_glb.py JOBS.json   (a Python with bpy)
JOBS.json: [{"file": ..., "bones": [names], "times": {animation: [seconds]}}]
Prints one JSON line a file: armatures, bones, actions, and for each action, shown one after the other without
a reset between them, the world position of each bone at each time.
"""
import json
import sys

import bpy

FPS = 60


def show(armature, action):
    armature.animation_data_create()
    armature.animation_data.action = action
    if getattr(action, "slots", None):
        armature.animation_data.action_slot = action.slots[0]


def main():
    with open(sys.argv[1]) as f:
        jobs = json.load(f)
    for job in jobs:
        bpy.ops.wm.read_factory_settings(use_empty=True)
        # glTF has no frames: keys land on time x fps of the scene.
        bpy.context.scene.render.fps = FPS
        bpy.ops.import_scene.gltf(filepath=job["file"])
        armatures = [o for o in bpy.data.objects if o.type == "ARMATURE"]
        result = {
            "file": job["file"],
            "armatures": len(armatures),
            "empties": len([o for o in bpy.data.objects if o.type == "EMPTY"]),
            "bones": [b.name for b in armatures[0].data.bones] if armatures else [],
            "actions": sorted(a.name for a in bpy.data.actions),
            "rest": {},
            "poses": {},
        }
        if armatures:
            armature = armatures[0]
            for track in armature.animation_data.nla_tracks if armature.animation_data else []:
                track.mute = True
            for name in job["bones"]:
                bone = armature.data.bones.get(name)
                if bone:
                    result["rest"][name] = list(armature.matrix_world @ bone.head_local)
            for animation, times in job["times"].items():
                action = bpy.data.actions.get(animation)
                if action is None:
                    continue
                show(armature, action)
                rows = []
                for t in times:
                    frame = t * FPS
                    bpy.context.scene.frame_set(int(frame), subframe=frame - int(frame))
                    pose = armature.evaluated_get(bpy.context.evaluated_depsgraph_get()).pose
                    rows.append({n: list(armature.matrix_world @ pose.bones[n].head) for n in job["bones"] if n in pose.bones})
                result["poses"][animation] = rows
        print("RESULT " + json.dumps(result))
        sys.stdout.flush()


main()
