package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/apis/history"
	"mainstay.dev/mainstay/internal/controlplane"
	"mainstay.dev/mainstay/internal/endpoints"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/overlay"
)

// ChangesPath is the path of the list of a fork's changes. The list contains a history.Change for each
// object that differs from the source, with both states of the object. States that cannot be decoded are
// omitted. For authorization, the path is a non-resource URL. The response can contain Secrets.
const ChangesPath = "/mainstay/v1/fork/changes"

// changesHandler serves ChangesPath. The cost of a request is proportional to the number of objects that were
// written in the fork, not to the number of all objects.
type changesHandler struct {
	fleet   *Fleet
	uid     types.UID
	session *session
	keys    *keySet
}

// ServeHTTP implements http.Handler.
func (h *changesHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		endpoints.WriteStatus(w, r, endpoints.StatusOf(apierrors.NewMethodNotSupported(history.GroupVersion().WithResource(history.Resource).GroupResource(), r.Method)))
		return
	}
	if len(h.keys.Layers) == 0 {
		endpoints.WriteStatus(w, r, endpoints.StatusOf(apierrors.NewBadRequest("the objects of this fork were copied, so its changes are not known: its source is in etcd, or was an old state of the history")))
		return
	}
	decoder, err := h.session.EntryDecoder()
	if err != nil {
		endpoints.WriteStatus(w, r, endpoints.StatusOf(apierrors.NewServiceUnavailable(err.Error())))
		return
	}
	list := &changeWriter{w: w}
	if err := h.write(r.Context(), decoder, list); err != nil {
		h.fleet.logger.Error("the changes of a fork cannot be read", "uid", h.uid, "err", err)
		if list.n > 0 {
			panic(http.ErrAbortHandler) // the client receives an incomplete response
		}
		endpoints.WriteStatus(w, r, endpoints.StatusOf(apierrors.NewInternalError(err)))
		return
	}
	list.end()
}

// write adds the changes of all objects to list, in the order of their keys.
func (h *changesHandler) write(ctx context.Context, decoder *controlplane.EntryDecoder, list *changeWriter) error {
	prefix := h.fleet.prefixOf(h.uid)
	written := kv.RangeRequest{Start: prefix, End: kv.PrefixEnd(prefix), Limit: 500}
	for {
		page, err := h.fleet.config.Backend.Backend.Range(ctx, written)
		if err != nil {
			return fmt.Errorf("read the objects of the fork: %w", err)
		}
		for i := range page.Entries {
			e := &page.Entries[i]
			change, err := h.change(ctx, decoder, e, e.Key[len(prefix):])
			if err != nil {
				return err
			}
			if change == nil {
				continue
			}
			if err := list.add(change); err != nil {
				return err
			}
		}
		if !page.More {
			return nil
		}
		written.Start, written.At = page.Entries[len(page.Entries)-1].Key+"\x00", page.Revision
	}
}

// change returns the difference between a stored object of the fork and the same object of the source. It
// returns nil if they do not differ, or if the entry is not an object or belongs to the server.
func (h *changesHandler) change(ctx context.Context, decoder *controlplane.EntryDecoder, stored *kv.Entry, relative string) (*history.Change, error) {
	object, ok := decoder.ObjectOf(stored.Key)
	if !ok || belongsToServer(relative) {
		return nil, nil
	}
	c := &history.Change{
		ObjectMeta: metav1.ObjectMeta{Namespace: object.Namespace}, Object: history.ObjectReference{Resource: object.Resource.String(), Name: object.Name},
		Operation: history.Updated, Revision: strconv.FormatInt(int64(stored.Modified), 10),
	}
	c.Name = c.Revision
	var before, after map[string]any
	below, err := h.session.base.Get(ctx, relative)
	if err != nil {
		return nil, fmt.Errorf("read the source of the fork: %w", err)
	}
	isDeleted := overlay.IsTombstone(stored.Value)
	if below == nil {
		if isDeleted {
			return nil, nil
		}
		c.Operation = history.Created
	} else {
		moved := *below
		moved.Key = stored.Key
		c.PreviousRevision = strconv.FormatInt(int64(below.Modified), 10)
		before = h.decode(ctx, decoder, &moved)
	}
	if isDeleted {
		c.Operation = history.Deleted
	} else {
		after = h.decode(ctx, decoder, stored)
	}
	if err := c.SetStates(before, after); err != nil {
		return nil, err
	}
	if c.IsComplete() && c.Operation == history.Updated && len(c.Fields) == 0 {
		return nil, nil
	}
	return c, nil
}

// decode returns the object of an entry, or nil if it cannot be decoded. It returns no error, so that the
// other changes remain visible.
func (h *changesHandler) decode(ctx context.Context, decoder *controlplane.EntryDecoder, entry *kv.Entry) map[string]any {
	object, err := decoder.Decode(ctx, entry)
	if err != nil {
		h.fleet.logger.Warn("an object of a fork cannot be decoded", "uid", h.uid, "err", err)
		return nil
	}
	return object
}

// belongsToServer reports whether the object with a relative key describes the control plane itself. Such
// objects differ between all control planes.
func belongsToServer(key string) bool {
	prefixes := append(controlplane.TransientPrefixes(), "configmaps/kube-system/extension-apiserver-authentication", "internal.apiserver.k8s.io/storageversions/")
	for _, prefix := range prefixes {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	name, ok := strings.CutPrefix(key, "apiregistration.k8s.io/apiservices/")
	return ok && strings.HasSuffix(name, ".mainstay.dev") // an APIService for an API that forks do not serve
}

// changeWriter writes a list of changes as a stream, one change at a time.
type changeWriter struct {
	w http.ResponseWriter
	n int // number of changes
}

func (l *changeWriter) begin() error {
	l.w.Header().Set("Content-Type", "application/json")
	_, err := fmt.Fprintf(l.w, `{"kind":"ChangeList","apiVersion":%q,"metadata":{},"items":[`, history.GroupVersion())
	return err
}

func (l *changeWriter) add(c *history.Change) error {
	var err error
	if l.n == 0 {
		err = l.begin()
	} else {
		_, err = io.WriteString(l.w, ",")
	}
	l.n++
	if err != nil {
		return err
	}
	c.APIVersion, c.Kind = history.GroupVersion().String(), "Change"
	return json.NewEncoder(l.w).Encode(c)
}

// end completes the list. It ignores errors, because they mean that the client has disconnected.
func (l *changeWriter) end() {
	if l.n == 0 {
		_ = l.begin()
	}
	_, _ = io.WriteString(l.w, "]}\n")
}
