package host

import (
	"fmt"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/endpoints"
)

// SnapshotPath serves a snapshot of the store at one revision, in the format of the storage backend. It
// requires the verb download on snapshots.mainstay.dev. Only system:masters and cluster-admin have this
// permission by default, because a snapshot contains all objects.
const SnapshotPath = "/mainstay/v1/snapshot"

// snapshot handles SnapshotPath. If an error occurs after the first byte was written, it aborts the
// response. Clients can also detect a truncated snapshot by the checksum at its end.
func (h *Host) snapshot(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		writeError(w, r, apierrors.NewMethodNotSupported(schema.GroupResource{Resource: SnapshotPath}, r.Method))
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	out := &trackedWriter{Writer: w}
	revision, err := h.store.backend.Snapshot(r.Context(), out)
	switch {
	case err == nil:
		h.logger.Info("sent a snapshot of the store", "revision", revision)
	case out.written:
		h.logger.Warn("a snapshot of the store was interrupted", "err", err)
		panic(http.ErrAbortHandler)
	default:
		writeError(w, r, apierrors.NewServiceUnavailable(fmt.Sprintf("the store cannot be copied: %v", err)))
	}
}

func writeError(w http.ResponseWriter, r *http.Request, err error) {
	endpoints.WriteStatus(w, r, endpoints.StatusOf(err))
}

// trackedWriter records whether anything was written.
type trackedWriter struct {
	io.Writer
	written bool
}

func (b *trackedWriter) Write(p []byte) (int, error) {
	b.written = true
	return b.Writer.Write(p)
}
