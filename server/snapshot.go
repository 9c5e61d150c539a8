package server

import (
	"fmt"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// SnapshotPath is where a running server gives a copy of its store, as of one
// revision, in the format of its backend. Who may read it may read everything:
// without further rules that is system:masters.
const SnapshotPath = "/mainstay/v1/snapshot"

// snapshot answers for SnapshotPath. A copy tells by its end whether it is
// whole; an answer that cannot be finished is broken off as well.
func (s *Server) snapshot(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		s.api.OnError(w, r, apierrors.NewMethodNotSupported(schema.GroupResource{Resource: SnapshotPath}, r.Method))
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	out := &begun{Writer: w}
	revision, err := s.backend.Snapshot(r.Context(), out)
	switch {
	case err == nil:
		s.logger.Info("gave a snapshot of the store", "revision", revision)
	case out.yes:
		s.logger.Warn("a snapshot of the store broke off", "err", err)
		panic(http.ErrAbortHandler)
	default:
		s.api.OnError(w, r, apierrors.NewServiceUnavailable(fmt.Sprintf("the store cannot be copied: %v", err)))
	}
}

// begun tells whether anything was written.
type begun struct {
	io.Writer
	yes bool
}

func (b *begun) Write(p []byte) (int, error) {
	b.yes = true
	return b.Writer.Write(p)
}
