"""The site of the course: its texts, its pages, the lab beside it, in a browser where there is one."""
