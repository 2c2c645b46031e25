"""The files that reput itself makes: `files` has those in `<store>/reput/`, `part_file` those between stages of a job.

May import `layout`, `paths`, `queue` and `index`.
"""
