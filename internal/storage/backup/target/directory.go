package target

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"mainstay.dev/mainstay/internal/storage/backup"
)

// directory is a Target in the file system.
type directory struct{ path string }

// partSuffix marks a file that is not complete.
const partSuffix = ".part"

// stalePart is the age at which a partial file is removed. Partial files of running processes are newer,
// because a process writes to its partial files continuously.
const stalePart = time.Hour

// String implements backup.Target.
func (d *directory) String() string {
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(d.path)}).String()
}

func (d *directory) file(name string) string { return filepath.Join(d.path, filepath.FromSlash(name)) }

// Put implements backup.Target. The object is durable when Put returns.
func (d *directory) Put(ctx context.Context, name string, r io.Reader) (err error) {
	path := d.file(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	part, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*"+partSuffix)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(part.Name())
		}
	}()
	if _, err = io.Copy(part, r); err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = part.Sync()
	}
	if err = errors.Join(err, part.Close()); err != nil {
		return err
	}
	if err := os.Rename(part.Name(), path); err != nil {
		return err
	}
	return syncDirs(filepath.Dir(path), filepath.Dir(d.path))
}

// syncDirs syncs a directory and its parents up to last, so that the names in them are durable.
func syncDirs(dir, last string) error {
	if runtime.GOOS == "windows" {
		return nil // directories cannot be synced there
	}
	for {
		f, err := os.Open(dir)
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
		if dir == last || dir == filepath.Dir(dir) {
			return nil
		}
		dir = filepath.Dir(dir)
	}
}

// Get implements backup.Target.
func (d *directory) Get(_ context.Context, name string) (io.ReadCloser, error) {
	f, err := os.Open(d.file(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", name, backup.ErrNotExist)
	}
	return f, err
}

// List implements backup.Target. It removes partial files of processes that were killed.
func (d *directory) List(ctx context.Context) ([]backup.Object, error) {
	root, err := filepath.EvalSymlinks(d.path) // WalkDir does not follow links
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // the directory does not exist yet
	}
	if err != nil {
		return nil, err
	}
	var objects []backup.Object
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the file was deleted
		}
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if strings.HasSuffix(path, partSuffix) {
			if time.Since(info.ModTime()) > stalePart {
				_ = os.Remove(path) // on error, the file remains until a later List
			}
			return nil
		}
		name, err := filepath.Rel(root, path)
		if err == nil {
			objects = append(objects, backup.Object{Name: filepath.ToSlash(name), Size: info.Size()})
		}
		return err
	})
	return objects, err
}

// Delete implements backup.Target. It also removes the directory of the object if the directory is empty.
func (d *directory) Delete(_ context.Context, name string) error {
	err := os.Remove(d.file(name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if dir := filepath.Dir(d.file(name)); dir != d.path {
		_ = os.Remove(dir) // fails if the directory has other files
	}
	return nil
}
