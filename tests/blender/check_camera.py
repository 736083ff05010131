"""Imports GLBs into Blender and prints where their cameras stand and look, and how textures are mapped.

Usage: python check_camera.py JOBS.json   (a Python with bpy)
JOBS.json: [{"file": ..., "times": [seconds]}]
Prints one JSON line a file: for each camera at each time its place, the way it looks, its top, its vertical field
of view; for the first Mapping node at each time location x, y, turn, scale x, y.
"""
import json
import sys

import bpy
from mathutils import Vector

FPS = 60


def main():
    with open(sys.argv[1]) as f:
        jobs = json.load(f)
    for job in jobs:
        bpy.ops.wm.read_factory_settings(use_empty=True)
        bpy.context.scene.render.fps = FPS
        bpy.ops.import_scene.gltf(filepath=job["file"])
        cameras = [o for o in bpy.data.objects if o.type == "CAMERA"]
        result = {"cameras": {c.name: [] for c in cameras}, "mappings": []}
        for t in job["times"]:
            frame = t * FPS
            bpy.context.scene.frame_set(int(frame), subframe=frame - int(frame))
            graph = bpy.context.evaluated_depsgraph_get()
            for camera in cameras:
                shown = camera.evaluated_get(graph)
                m = shown.matrix_world
                result["cameras"][camera.name].append({
                    "at": list(m.translation),
                    "look": list((m.to_3x3() @ Vector((0, 0, -1))).normalized()),
                    "up": list((m.to_3x3() @ Vector((0, 1, 0))).normalized()),
                    "fov_deg": shown.data.angle_y * 57.29577951308232,
                })
            for material in bpy.data.materials:
                shown = material.evaluated_get(graph)
                for node in shown.node_tree.nodes if shown.node_tree else []:
                    if node.type == "MAPPING":
                        at, turn, scale = (node.inputs[n].default_value for n in ("Location", "Rotation", "Scale"))
                        result["mappings"].append([at[0], at[1], turn[2], scale[0], scale[1]])
        print("RESULT " + json.dumps(result), flush=True)


main()
