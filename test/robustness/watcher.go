package robustness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// errExpired is returned if the requested revision of a watch is no longer available.
var errExpired = errors.New("expired")

// watcher follows the objects of a selector over as many connections as necessary, and stores the received
// events. It is not safe for concurrent use; received may be read after follow has returned.
type watcher struct {
	client   *client
	received watched
	// rng selects a random timeout for each connection, so that the server ends some connections. It may be
	// nil.
	rng *rand.Rand
	// reader wraps the response body. It may be nil.
	reader func(context.Context, io.Reader) io.Reader
	// roam returns the client for the next connection. It may be nil.
	roam func() *client
	// await blocks until the watcher can connect again after a connection or the server has failed.
	await func(context.Context) error
	// relist makes the watcher list the objects if its revision has expired, and continue at the revision of
	// the list.
	relist bool
	// expired is the number of times that the watcher's revision had expired.
	expired int
}

// maxWatch is the maximum timeout of a connection if rng is set.
const maxWatch = 5 * time.Second

// follow watches from a revision until it has received an event whose revision is at least the revision that
// until returns. It then returns nil. until returns 0 while this revision is unknown.
func (w *watcher) follow(ctx context.Context, from int64, until func() int64) error {
	s := stream{from: from}
	for {
		if end := until(); end > 0 && s.from >= end {
			return nil
		}
		if w.roam != nil {
			w.client = w.roam()
		}
		err := w.connection(ctx, &s, until)
		w.received.streams = append(w.received.streams, s)
		s = stream{from: s.position()}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errExpired) && w.relist:
			w.expired++
			_, revision, _, err := w.client.list(ctx)
			if err != nil {
				return fmt.Errorf("list after a watch expired: %w", err)
			}
			s = stream{from: revision, relisted: true}
		case errors.Is(err, errUnavailable):
			w.client.reconnect()
			if err := w.await(ctx); err != nil {
				return err
			}
		case err != nil:
			return fmt.Errorf("watch of %s from %d: %w", w.received.selector, s.from, err)
		}
	}
}

// connection reads the events of one watch request into s. It returns nil if the server ended the watch
// regularly.
func (w *watcher) connection(ctx context.Context, s *stream, until func() int64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var timeout time.Duration
	if w.rng != nil {
		timeout = max(time.Second, time.Duration(w.rng.Int64N(int64(maxWatch))))
	}
	resp, err := w.client.watch(ctx, w.received.selector, s.from, timeout)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return refusal(resp)
	}
	var body io.Reader = resp.Body
	if w.reader != nil {
		body = w.reader(ctx, body)
	}
	lines := json.NewDecoder(body)
	for {
		e, err := next(lines)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		s.events = append(s.events, e)
		if end := until(); end > 0 && e.revision >= end {
			return nil
		}
	}
}

func refusal(resp *http.Response) error {
	var st status
	if err := json.NewDecoder(resp.Body).Decode(&st); err != nil {
		return fmt.Errorf("%w: %s", errUnavailable, resp.Status)
	}
	return failure(st)
}

func failure(st status) error {
	if st.Code == http.StatusGone {
		return fmt.Errorf("%w: %s", errExpired, st.Message)
	}
	_, err := st.outcome()
	return err
}

// next reads one event.
func next(lines *json.Decoder) (event, error) {
	var line struct {
		Type   string
		Object json.RawMessage
	}
	if err := lines.Decode(&line); err != nil {
		if errors.Is(err, io.EOF) {
			return event{}, io.EOF
		}
		return event{}, fmt.Errorf("%w: %w", errUnavailable, err)
	}
	if line.Type == "ERROR" {
		var st status
		if err := json.Unmarshal(line.Object, &st); err != nil {
			return event{}, fmt.Errorf("read an error: %w", err)
		}
		return event{}, failure(st)
	}
	var doc document
	if err := json.Unmarshal(line.Object, &doc); err != nil {
		return event{}, fmt.Errorf("read an object: %w", err)
	}
	if line.Type == bookmark {
		revision, err := strconv.ParseInt(doc.Metadata.ResourceVersion, 10, 64)
		return event{kind: bookmark, object: object{revision: revision}}, err
	}
	o, err := doc.object()
	return event{kind: line.Type, object: o}, err
}
