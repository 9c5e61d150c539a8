package backup

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// An object is an envelope around its content:
//
//	magic        8 bytes, objectMagic
//	flags        1 byte; flagEncrypted
//	content      compressed with zstd, and then encrypted with age if flagEncrypted is set
//	mark         32 bytes, SHA-256 of the last commit, by which a server recognizes its own generation;
//	             zero if the store did not have the commit of a base
//	sum          32 bytes, SHA-256 of all preceding bytes
//
// The content of a base is a snapshot of package embedded. The content of a segment is a list of
// commits, followed by the pins of the store if it has any; see appendCommit and appendPins.
const (
	objectMagic   = "MAINBAK1"
	flagEncrypted = 1

	objectHeaderLen  = len(objectMagic) + 1
	objectTrailerLen = 2 * sha256.Size
)

// zstdWindow is the window size of the compression, in bytes. It limits the memory of writers and readers.
const zstdWindow = 1 << 20

// mark identifies a commit.
type mark [sha256.Size]byte

// errDamaged returns an error for a damaged object. It wraps kv.ErrCorrupt.
func errDamaged(problem string) error {
	return fmt.Errorf("the object is damaged: %s: %w", problem, kv.ErrCorrupt)
}

// objectWriter writes an object. The caller must call close after the content.
type objectWriter struct {
	io.Writer // writes the content
	closers   []io.Closer
	to        io.Writer // writes the object, and updates sum
	sum       hash.Hash
}

// newObjectWriter writes the header of an object. The content is encrypted for the recipients, if there are
// any.
func newObjectWriter(to io.Writer, recipients []age.Recipient) (*objectWriter, error) {
	w := &objectWriter{sum: sha256.New()}
	all := io.MultiWriter(to, w.sum)
	w.to = all
	header := append([]byte(objectMagic), 0)
	if len(recipients) > 0 {
		header[len(objectMagic)] = flagEncrypted
	}
	if _, err := all.Write(header); err != nil {
		return nil, err
	}
	content := all
	if len(recipients) > 0 {
		encrypted, err := age.Encrypt(all, recipients...)
		if err != nil {
			return nil, err
		}
		content, w.closers = encrypted, append(w.closers, encrypted)
	}
	compressed, err := zstd.NewWriter(content, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(zstdWindow), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, err
	}
	w.Writer, w.closers = compressed, append([]io.Closer{compressed}, w.closers...)
	return w, nil
}

// close completes the content, and writes the mark at and the checksum.
func (w *objectWriter) close(at mark) error {
	for _, c := range w.closers {
		if err := c.Close(); err != nil {
			return err
		}
	}
	if _, err := w.to.Write(at[:]); err != nil {
		return err
	}
	_, err := w.to.Write(w.sum.Sum(nil))
	return err
}

// readHeader reads the header of an object, and reports whether the content is encrypted.
func readHeader(r io.Reader) (encrypted bool, err error) {
	header := make([]byte, objectHeaderLen)
	if _, err := io.ReadFull(r, header); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return false, errDamaged("it ends in its header")
	} else if err != nil {
		return false, err
	}
	flags := header[len(objectMagic)]
	if !bytes.HasPrefix(header, []byte(objectMagic)) || flags&^flagEncrypted != 0 {
		return false, errDamaged("it is not an object of a backup, or has a newer format")
	}
	return flags&flagEncrypted != 0, nil
}

// ErrEncrypted is returned for an encrypted object if no identity can decrypt it.
var ErrEncrypted = errors.New("the backup is encrypted, and none of the given identities can decrypt it")

// readObject passes the content of an object to read, verifies the rest of the object, and returns its
// mark. If read is nil, it only verifies the checksum, which requires no identity.
func readObject(r io.Reader, identities []age.Identity, read func(io.Reader) error) (mark, error) {
	sum := &sumReader{r: bufio.NewReaderSize(r, 64<<10), sum: sha256.New()}
	encrypted, err := readHeader(sum)
	if err == nil && read != nil {
		err = readContent(sum, encrypted, identities, read)
	}
	if errors.Is(err, errStop) {
		return mark{}, nil
	}
	if _, failed := io.Copy(io.Discard, sum); failed != nil {
		return mark{}, failed // this may also have caused err
	}
	return sum.mark, err
}

// errStop is returned by the read argument of readObject to ignore the rest of an object.
var errStop = errors.New("stop")

func readContent(r io.Reader, encrypted bool, identities []age.Identity, read func(io.Reader) error) error {
	if encrypted {
		var noMatch *age.NoIdentityMatchError
		content, err := age.Decrypt(r, identities...)
		if len(identities) == 0 || errors.As(err, &noMatch) {
			return ErrEncrypted
		}
		if err != nil {
			return errDamaged(err.Error())
		}
		r = content
	}
	// Concurrency 1 decodes in this goroutine.
	content, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(zstdWindow))
	if err != nil {
		return err
	}
	defer content.Close()
	return read(content)
}

// sumReader reads the bytes of an object up to the trailer, and verifies the checksum at the end.
type sumReader struct {
	r    *bufio.Reader
	sum  hash.Hash
	mark mark  // set at the end of the object
	end  error // returned by all reads after the end
}

// Read implements io.Reader.
func (s *sumReader) Read(p []byte) (int, error) {
	if len(p) == 0 || s.end != nil {
		return 0, s.end
	}
	ahead, err := s.r.Peek(min(len(p)+objectTrailerLen, s.r.Size()))
	n := len(ahead) - objectTrailerLen
	if n > 0 {
		n = copy(p, ahead[:n])
		_, _ = s.sum.Write(p[:n])
		_, _ = s.r.Discard(n)
		return n, nil
	}
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return 0, err
	case n < 0:
		return 0, errDamaged("it is truncated")
	}
	at := copy(s.mark[:], ahead)
	_, _ = s.sum.Write(s.mark[:])
	s.end = io.EOF
	if !bytes.Equal(ahead[at:], s.sum.Sum(nil)) {
		s.end = errDamaged("its checksum is wrong")
	}
	return 0, s.end
}

// commit is a commit in a segment. Its events have the same revision; Prev and Note are not stored.
type commit struct {
	revision kv.Revision
	time     int64 // Unix milliseconds
	origin   []byte
	events   []kv.Event
}

// appendCommit appends the encoding of a commit, in which numbers are uvarints:
//
//	length       of the rest
//	revision
//	time         Unix milliseconds
//	origin       length, bytes
//	events       number, and for each:
//	    key      length, bytes
//	    age      0 for a deletion; otherwise 1 plus the revision minus the creation revision
//	    expires  Unix seconds; 0 if the key does not expire. Absent for a deletion, like value
//	    value    length, bytes
func appendCommit(dst []byte, c *commit) []byte {
	var body []byte
	body = binary.AppendUvarint(body, uint64(c.revision))
	body = binary.AppendUvarint(body, uint64(c.time))
	body = appendBytes(body, c.origin)
	body = binary.AppendUvarint(body, uint64(len(c.events)))
	for i := range c.events {
		ev := &c.events[i]
		body = appendBytes(body, []byte(ev.Key))
		if ev.Deleted {
			body = append(body, 0)
			continue
		}
		body = binary.AppendUvarint(body, 1+uint64(c.revision-ev.Created))
		body = binary.AppendUvarint(body, uint64(ev.Expires))
		body = appendBytes(body, ev.Value)
	}
	return appendBytes(dst, body)
}

func appendBytes(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

// maxCommit is the maximum size of an encoded commit, in bytes. Commits of all backends are smaller.
const maxCommit = 64 << 20

// appendPins appends the encoding of pins. Numbers are uvarints:
//
//	length       of the rest
//	0            instead of the revision of a commit
//	number       and for each pin:
//	    revision
//	    prefix   length, bytes
//	    owner    length, bytes
func appendPins(dst []byte, pins []kv.Pin) []byte {
	body := binary.AppendUvarint([]byte{0}, uint64(len(pins)))
	for _, p := range pins {
		body = binary.AppendUvarint(body, uint64(p.Revision))
		body = appendBytes(body, []byte(p.Prefix))
		body = appendBytes(body, []byte(p.Owner))
	}
	return appendBytes(dst, body)
}

func decodePins(raw []byte) ([]kv.Pin, bool) {
	d := decoder{rest: raw[1:]}
	var pins []kv.Pin
	for n := d.number(); n > 0 && !d.failed; n-- {
		pins = append(pins, kv.Pin{Revision: kv.Revision(d.number()), Prefix: string(d.bytes()), Owner: string(d.bytes())})
	}
	return pins, !d.failed && len(d.rest) == 0
}

// segmentContent is the decoded content of a segment.
type segmentContent struct {
	commits []*commit // in the order of their revisions
	// pins are the pins of the store when the segment was uploaded.
	pins []kv.Pin
}

// readSegmentContent reads the content of a segment.
func readSegmentContent(r io.Reader) (content segmentContent, err error) {
	buffered := bufio.NewReader(r)
	for last := kv.Revision(0); ; {
		n, err := binary.ReadUvarint(buffered)
		if errors.Is(err, io.EOF) {
			return content, nil
		}
		if err == nil && (n == 0 || n > maxCommit || content.pins != nil) {
			return content, errDamaged("the size or the position of a commit is wrong")
		}
		var body bytes.Buffer // grows with the bytes that arrive
		if err == nil {
			_, err = io.CopyN(&body, buffered, int64(n))
		}
		if err != nil {
			return content, fmt.Errorf("read a commit: %w", err)
		}
		if body.Bytes()[0] == 0 {
			pins, ok := decodePins(body.Bytes())
			if !ok || len(pins) == 0 {
				return content, errDamaged("a list of pins is malformed")
			}
			content.pins = pins
			continue
		}
		c, ok := decodeCommit(body.Bytes())
		if !ok || c.revision <= last {
			return content, errDamaged("a commit is malformed")
		}
		last = c.revision
		content.commits = append(content.commits, c)
	}
}

// decodeCommit decodes a commit, which aliases raw.
func decodeCommit(raw []byte) (*commit, bool) {
	d := decoder{rest: raw}
	c := &commit{revision: kv.Revision(d.number()), time: int64(d.number()), origin: d.bytes()}
	for n := d.number(); n > 0 && !d.failed; n-- {
		ev := kv.Event{Revision: c.revision, Key: string(d.bytes())}
		age := d.number()
		if ev.Deleted = age == 0; !ev.Deleted {
			ev.Created = c.revision - kv.Revision(age-1)
			ev.Expires = int64(d.number())
			ev.Value = d.bytes()
		}
		if ev.Key == "" || !ev.Deleted && (ev.Created <= 0 || ev.Created > c.revision || ev.Expires < 0) {
			return nil, false
		}
		c.events = append(c.events, ev)
	}
	return c, !d.failed && len(d.rest) == 0 && c.revision > 0
}

// decoder decodes the parts of a commit.
type decoder struct {
	rest   []byte
	failed bool
}

func (d *decoder) number() uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.failed, d.rest = true, nil
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) bytes() []byte {
	n := d.number()
	if n > uint64(len(d.rest)) {
		d.failed, d.rest = true, nil
		return nil
	}
	b := d.rest[:n:n]
	d.rest = d.rest[n:]
	return b
}

// markOf returns the mark of a commit.
func markOf(c *commit) mark {
	return sha256.Sum256(appendCommit(nil, &commit{revision: c.revision, events: c.events}))
}
