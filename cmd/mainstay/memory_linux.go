package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// releaseCode gives back the pages of the program's own code, most of which ran
// once, at the start. What runs again is mapped again when it does, out of the
// page cache. Only code is given back: its pages never differ from the file.
func releaseCode() error {
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return fmt.Errorf("find the program's code: %w", err)
	}
	defer maps.Close()
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the program's code: %w", err)
	}
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		var start, end uintptr
		var mode string
		line := lines.Text()
		if _, err := fmt.Sscanf(line, "%x-%x %s", &start, &end, &mode); err != nil {
			continue
		}
		if mode != "r-xp" || !strings.HasSuffix(line, program) {
			continue
		}
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, start, end-start, unix.MADV_DONTNEED); errno != 0 {
			return fmt.Errorf("give back the program's code: %w", errno)
		}
	}
	return nil
}
