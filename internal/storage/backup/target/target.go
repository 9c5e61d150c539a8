// Package target implements the targets of a backup: a directory, and a bucket of an S3-compatible
// object store.
package target

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"

	"mainstay.dev/mainstay/internal/storage/backup"
)

// Open returns the target of a URL:
//
//	file:///var/backups/cluster           a directory, which is created by the first write
//	s3://BUCKET/PREFIX?region=REGION      a bucket of Amazon S3
//	s3://BUCKET/PREFIX?endpoint=URL       a bucket of another server; the URL begins with https:// or http://
//
// It does not connect to a server. The credentials for S3 are the same as for the AWS command line:
// environment variables, the shared credentials file, or the role of the machine or of the pod. It returns an
// error for other URLs.
func Open(location string) (backup.Target, error) {
	u, err := url.Parse(location)
	if err != nil {
		return nil, fmt.Errorf("%q is not a URL of a backup: %w", location, errors.Unwrap(err))
	}
	switch u.Scheme {
	case "file":
		if u.Host != "" || !filepath.IsAbs(filepath.FromSlash(u.Path)) || u.RawQuery != "" || u.Fragment != "" {
			return nil, fmt.Errorf("%q is not a URL of a directory such as file:///var/backups/cluster", location)
		}
		return &directory{path: filepath.Clean(filepath.FromSlash(u.Path))}, nil
	case "s3":
		return openBucket(u)
	}
	return nil, fmt.Errorf("%q is not a URL of a backup, which begins with file:/// or s3://", u.Redacted())
}

// Path returns the path of a target that is a directory. It returns false for other targets.
func Path(t backup.Target) (string, bool) {
	d, ok := t.(*directory)
	if !ok {
		return "", false
	}
	return d.path, true
}
