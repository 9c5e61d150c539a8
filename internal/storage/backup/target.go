package backup

import (
	"context"
	"errors"
	"io"
)

// Target stores objects with names such as "a/b". It is safe for concurrent use.
type Target interface {
	// Put creates or replaces an object as a whole. After an error, or if the process ends, the object is
	// unchanged, or completely written nevertheless.
	Put(ctx context.Context, name string, r io.Reader) error
	// Get opens an object. The caller must close it. If the object does not exist, Get or the first Read
	// returns an error that wraps ErrNotExist.
	Get(ctx context.Context, name string) (io.ReadCloser, error)
	// List returns all objects, in any order.
	List(ctx context.Context) ([]Object, error)
	// Delete deletes an object. It is not an error if the object does not exist.
	Delete(ctx context.Context, name string) error
	// String returns the URL of the target without secrets.
	String() string
}

// Object is an object of a Target.
type Object struct {
	Name string
	Size int64 // in bytes
}

// ErrNotExist reports that an object does not exist.
var ErrNotExist = errors.New("there is no such object in the backup")
