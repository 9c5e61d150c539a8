package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// releaseCode unmaps the pages of the program's code and constants, most of which are used only at
// the start or in a burst of work. The kernel maps used pages again from the page cache. It takes a
// millisecond, once after a start or burst. It unmaps only read-only mappings without private
// pages.
func releaseCode() error {
	maps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return fmt.Errorf("find the program's code: %w", err)
	}
	defer maps.Close()
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the program's code: %w", err)
	}
	var start, end uintptr
	constant := false
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		line := lines.Text()
		if anonymous, ok := strings.CutPrefix(line, "Anonymous:"); ok {
			if !constant || strings.TrimSpace(anonymous) != "0 kB" {
				continue
			}
			if _, _, errno := unix.Syscall(unix.SYS_MADVISE, start, end-start, unix.MADV_DONTNEED); errno != 0 {
				return fmt.Errorf("release the program's code: %w", errno)
			}
			continue
		}
		var from, to uintptr
		var mode string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &mode); err == nil {
			start, end = from, to
			constant = (mode == "r-xp" || mode == "r--p") && strings.HasSuffix(line, program)
		}
	}
	return nil
}
