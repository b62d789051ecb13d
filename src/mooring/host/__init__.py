"""Every system call and every file: the only room that touches the machine."""
