// Package origin describes who made a commit: the user and the request. The storage encodes the
// description of the current request into kv.Op.Origin, and the history decodes it.
package origin

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"mainstay.dev/mainstay/internal/request"
)

// Origin describes a commit. All fields except Time are empty if they are unknown.
type Origin struct {
	// Time is the time of the commit, with a precision of milliseconds.
	Time time.Time
	// User is the name of the user whose permissions applied. ImpersonatedBy is the name of the authenticated
	// user if the request used impersonation, otherwise empty.
	User, ImpersonatedBy string
	// Verb and Subresource are the verb and the subresource of the request, such as patch and status.
	Verb, Subresource string
	// FieldManager is the manager of the written fields.
	FieldManager string
	UserAgent    string
	AuditID      string
}

// MaxText is the maximum size of each text in bytes. Longer texts are truncated.
const MaxText = 256

// encoding is the first byte of an encoded Origin. The time in Unix milliseconds and the texts follow, in the
// order of texts, each preceded by its length.
const encoding = 1

func (o *Origin) texts() [7]*string {
	return [...]*string{&o.User, &o.ImpersonatedBy, &o.Verb, &o.Subresource, &o.FieldManager, &o.UserAgent, &o.AuditID}
}

// Of returns the origin of a commit that is made at a time for the request of ctx. If ctx has no request,
// only the time is set.
func Of(ctx context.Context, at time.Time) Origin {
	o := Origin{
		Time: at, FieldManager: request.FieldManager(ctx), UserAgent: request.UserAgent(ctx), AuditID: request.AuditID(ctx),
	}
	if user := request.UserFrom(ctx); user != nil {
		o.User = user.Name
	}
	if request.ImpersonationFrom(ctx) != nil {
		if by := request.AuthenticationFrom(ctx); by != nil {
			o.ImpersonatedBy = by.User.Name
		}
	}
	if info := request.InfoFrom(ctx); info != nil {
		o.Verb, o.Subresource = info.Verb, info.Subresource
	}
	return o
}

// Encode returns the encoding of an Origin for Decode.
func (o *Origin) Encode() []byte {
	size := 1 + binary.MaxVarintLen64
	for _, text := range o.texts() {
		size += 2 + min(len(*text), MaxText)
	}
	dst := make([]byte, 0, size)
	dst = binary.AppendUvarint(append(dst, encoding), uint64(max(o.Time.UnixMilli(), 0)))
	for _, text := range o.texts() {
		short := truncate(*text)
		dst = binary.AppendUvarint(dst, uint64(len(short)))
		dst = append(dst, short...)
	}
	return dst
}

// truncate returns a valid UTF-8 text of at most MaxText bytes.
func truncate(text string) string {
	if len(text) > MaxText {
		cut := MaxText
		for cut > 0 && !utf8.RuneStart(text[cut]) {
			cut--
		}
		text = text[:cut]
	}
	return strings.ToValidUTF8(text, "?")
}

var errMalformed = errors.New("malformed origin of a commit")

// Decode decodes the result of Encode. An empty encoding decodes to the zero Origin. It returns an error for
// an invalid encoding.
func Decode(raw []byte) (Origin, error) {
	var o Origin
	if len(raw) == 0 {
		return o, nil
	}
	if raw[0] != encoding {
		return o, errMalformed
	}
	at, n := binary.Uvarint(raw[1:])
	if n <= 0 || at > maxTime {
		return o, errMalformed
	}
	o.Time, raw = time.UnixMilli(int64(at)), raw[1+n:]
	for _, text := range o.texts() {
		size, n := binary.Uvarint(raw)
		if n <= 0 || size > MaxText || size > uint64(len(raw)-n) {
			return Origin{}, errMalformed
		}
		*text, raw = string(raw[n:n+int(size)]), raw[n+int(size):]
	}
	return o, nil
}

// maxTime is the maximum time in Unix milliseconds: the end of the year 9999, the last year of RFC 3339.
const maxTime = 253402300799999
