package pki

import (
	"io/fs"
	"slices"
)

// InMemory is a directory name that selects memory instead of files. Each call of a function with InMemory
// creates new keys and certificates.
const InMemory = ""

// filesOf returns the file system for a directory: a new, empty memory for InMemory, and otherwise the file
// system of the operating system.
func filesOf(dir string) files {
	if dir == InMemory {
		return memory{}
	}
	return system{}
}

// memory is a file system in a map. All directories exist.
type memory map[string][]byte

func (m memory) read(name string) ([]byte, error) {
	data, ok := m[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return data, nil
}

func (m memory) write(name string, data []byte, _ fs.FileMode) error {
	m[name] = slices.Clone(data)
	return nil
}

func (m memory) rename(from, to string) error {
	m[to] = m[from]
	delete(m, from)
	return nil
}

func (memory) mode(string) (fs.FileMode, error) { return 0o700, nil }
func (memory) mkdir(string) error               { return nil }
func (memory) syncDir(string) error             { return nil }
