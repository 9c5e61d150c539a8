package server

import (
	"fmt"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/endpoints"
)

// SnapshotPath is where a running server gives a copy of its store, as of one
// revision, in the format of its backend. Who may read it may read everything:
// without further rules that is system:masters.
const SnapshotPath = "/mainstay/v1/snapshot"

// snapshot answers for SnapshotPath. A copy tells by its end whether it is
// whole; an answer that cannot be finished is broken off as well.
func (h *Host) snapshot(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		writeError(w, r, apierrors.NewMethodNotSupported(schema.GroupResource{Resource: SnapshotPath}, r.Method))
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	out := &trackedWriter{Writer: w}
	revision, err := h.backend.Snapshot(r.Context(), out)
	switch {
	case err == nil:
		h.logger.Info("gave a snapshot of the store", "revision", revision)
	case out.written:
		h.logger.Warn("a snapshot of the store broke off", "err", err)
		panic(http.ErrAbortHandler)
	default:
		writeError(w, r, apierrors.NewServiceUnavailable(fmt.Sprintf("the store cannot be copied: %v", err)))
	}
}

func writeError(w http.ResponseWriter, r *http.Request, err error) {
	endpoints.WriteStatus(w, r, endpoints.StatusOf(err))
}

// trackedWriter tells whether anything was written.
type trackedWriter struct {
	io.Writer
	written bool
}

func (b *trackedWriter) Write(p []byte) (int, error) {
	b.written = true
	return b.Writer.Write(p)
}
