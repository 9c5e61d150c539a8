package memory

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
)

// unlimited is the lowest value of a control group's limit that is treated as no limit, in bytes.
const unlimited = math.MaxInt64 / 2

// Available returns the memory that the process may use, in bytes. This is the lowest limit of its control
// groups or, if that is lower, the memory of the machine. root is the root of a Linux file system.
// Available returns 0 and no error if the files do not exist, as on other systems.
func Available(root fs.FS) (int64, error) {
	total, err := memTotal(root)
	if err != nil {
		return 0, fmt.Errorf("read the memory size of the machine: %w", err)
	}
	allowed, err := controlGroupLimit(root)
	if err != nil {
		return 0, fmt.Errorf("read the memory limit of the control group: %w", err)
	}
	if allowed > 0 && (total == 0 || allowed < total) {
		return allowed, nil
	}
	return total, nil
}

// memTotal returns the MemTotal value of /proc/meminfo, in bytes.
func memTotal(root fs.FS) (int64, error) {
	text, err := readIfExists(root, "proc/meminfo")
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(text) {
		fields := strings.Fields(string(line))
		if len(fields) == 3 && fields[0] == "MemTotal:" && fields[2] == "kB" {
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil || kib < 0 || kib > unlimited>>10 {
				return 0, fmt.Errorf("/proc/meminfo contains %q", strings.TrimSpace(string(line)))
			}
			return kib << 10, nil
		}
	}
	return 0, nil
}

// controlGroupLimit returns the lowest limit of the process's control groups (version 1 or 2), in bytes; 0
// means no limit.
func controlGroupLimit(root fs.FS) (int64, error) {
	text, err := readIfExists(root, "proc/self/cgroup")
	if err != nil {
		return 0, err
	}
	var least int64
	for line := range bytes.Lines(text) {
		// hierarchy:controllers:path
		fields := strings.SplitN(strings.TrimSpace(string(line)), ":", 3)
		if len(fields) < 3 {
			continue
		}
		base, file := "", ""
		switch {
		case fields[1] == "":
			base, file = "sys/fs/cgroup", "memory.max"
		case fields[1] == "memory":
			base, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		default:
			continue
		}
		limit, err := lowestLimit(root, base, fields[2], file)
		if err != nil {
			return 0, err
		}
		if limit > 0 && (least == 0 || limit < least) {
			least = limit
		}
	}
	return least, nil
}

// lowestLimit returns the lowest limit of a group and its ancestors. Inside a container, the container's
// group may appear as the root.
func lowestLimit(root fs.FS, base, group, file string) (int64, error) {
	var least int64
	for at := path.Join("/", group); ; at = path.Dir(at) {
		limit, err := groupLimit(root, path.Join(base, at, file))
		if err != nil {
			return 0, err
		}
		if limit > 0 && (least == 0 || limit < least) {
			least = limit
		}
		if at == "/" {
			return least, nil
		}
	}
}

func groupLimit(root fs.FS, name string) (int64, error) {
	text, err := readIfExists(root, name)
	if err != nil || len(text) == 0 {
		return 0, err
	}
	value := strings.TrimSpace(string(text))
	if value == "max" {
		return 0, nil
	}
	limit, err := strconv.ParseUint(value, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("/%s contains %q", name, value)
	}
	if limit >= unlimited {
		return 0, nil
	}
	return int64(limit), nil
}

// readIfExists returns the content of a file, or nil if it does not exist or is not accessible.
func readIfExists(root fs.FS, name string) ([]byte, error) {
	text, err := fs.ReadFile(root, name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrInvalid) {
		return nil, nil
	}
	return text, err
}
