package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"time"
)

// entry is a file in an archive.
type entry struct {
	name string
	mode int64 // permissions
	data []byte
	link string // target of a symbolic link; empty for files and directories
}

// entries returns the entries of an archive. They are the program and the additional files, in the directory
// folder.
func (r *release) entries(folder string, b binary) ([]entry, error) {
	program, err := os.ReadFile(b.path)
	if err != nil {
		return nil, err
	}
	all := []entry{{name: folder + "/" + b.base(), mode: 0o755, data: program}}
	for _, path := range r.extra {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		all = append(all, entry{name: folder + "/" + filepath.Base(path), mode: 0o644, data: data})
	}
	return all, nil
}

// writeTar writes a .tar.gz archive.
func (r *release) writeTar(path, folder string, b binary) error {
	entries, err := r.entries(folder, b)
	if err != nil {
		return err
	}
	raw, err := tarOf(entries, r.time)
	if err != nil {
		return err
	}
	zipped, err := gzipOf(raw)
	if err != nil {
		return err
	}
	return os.WriteFile(path, zipped, 0o644)
}

// writeZip writes a .zip archive.
func (r *release) writeZip(path, folder string, b binary) error {
	entries, err := r.entries(folder, b)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, e := range entries {
		header := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: r.time}
		header.SetMode(os.FileMode(e.mode))
		file, err := w.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := file.Write(e.data); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(path, out.Bytes(), 0o644)
}

// tarOf returns a tar file. An entry whose name ends with a slash is a directory that belongs to imageUser.
// Other entries belong to root.
func tarOf(entries []entry, modified time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		header := &tar.Header{Name: e.name, Mode: e.mode, Size: int64(len(e.data)), ModTime: modified, Format: tar.FormatPAX, Typeflag: tar.TypeReg}
		if e.name[len(e.name)-1] == '/' {
			header.Typeflag = tar.TypeDir
			header.Uid, header.Gid = imageUser, imageUser
		}
		if e.link != "" {
			header.Typeflag, header.Linkname = tar.TypeSymlink, e.link
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// gzipOf compresses data without a timestamp, so that the output is reproducible.
func gzipOf(data []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := io.Copy(w, bytes.NewReader(data)); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
