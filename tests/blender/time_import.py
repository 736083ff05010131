"""Times Blender's import of many clips: one file each against one file with all of them.

    python time_import.py ANIM2GLTF DICTIONARY [--clip NAME] [--clips 200] [--times 1]

Copies DICTIONARY (a .ycd) so many times, converts one clip of each without and with `--bundle`, imports both
results, and prints the medians. Needs the `bpy` package.
"""

import argparse
import pathlib
import shutil
import statistics
import subprocess
import tempfile
import time

import bpy


def import_all(paths, apart):
    """Seconds of all imports, and the actions that they made. `apart`: into an empty file each."""
    seconds, actions = 0.0, 0
    for i, path in enumerate(paths):
        if i == 0 or apart:
            actions += len(bpy.data.actions) if i else 0
            bpy.ops.wm.read_factory_settings(use_empty=True)
        start = time.perf_counter()
        bpy.ops.import_scene.gltf(filepath=str(path))
        seconds += time.perf_counter() - start
    return seconds, actions + len(bpy.data.actions)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("dictionary")
    parser.add_argument("--clip", default="*", help="the clip of the dictionary that is taken")
    parser.add_argument("--clips", type=int, default=200)
    parser.add_argument("--times", type=int, default=1)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "in").mkdir()
        for i in range(args.clips):
            shutil.copy(args.dictionary, folder / "in" / f"clip{i:03}.ycd")
        for name, options in (("single", []), ("bundle", ["--bundle", str(args.clips)])):
            command = [args.program, str(folder / "in"), "-o", str(folder / name), "--quiet"]
            subprocess.run([*command, "--clip", args.clip, *options], check=True)
        ways = {
            "a file each, into one scene": ("single", False),
            "a file each, each into an empty scene": ("single", True),
            "one bundle": ("bundle", False),
        }
        runs = {way: [] for way in ways}
        for _ in range(args.times):
            for way, (name, apart) in ways.items():
                seconds, actions = import_all(sorted((folder / name).rglob("*.glb")), apart)
                assert actions == args.clips, f"{way}: {actions} actions"
                runs[way].append(seconds)
        medians = {way: statistics.median(seconds) for way, seconds in runs.items()}
        for way, seconds in medians.items():
            ratio = seconds / medians["one bundle"]
            print(f"Blender {bpy.app.version_string}, {args.clips} clips, {way}: {seconds:.2f} s ({ratio:.1f} times the bundle's)")



if __name__ == "__main__":
    main()
