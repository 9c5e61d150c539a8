package telemetry

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// ServerID returns the identity of a server, derived from the host name as in kube-apiserver. It is stable
// across restarts, and equal to the identity of a kube-apiserver on the same host.
func ServerID(hostname string) string {
	var hashed []byte
	for _, part := range []string{hostname, "kube-apiserver"} {
		hashed = binary.BigEndian.AppendUint16(hashed, uint16(len(part)))
		hashed = append(hashed, part...)
	}
	sum := sha256.Sum256(hashed)
	return "apiserver-" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16]))
}

// Hash returns "sha256:" followed by the SHA-256 hash of a value in hexadecimal. Metrics contain
// this hash in place of identities, issuers and file contents.
func Hash[T ~string | ~[]byte](of T) string {
	return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(of)))
}

// WithServerID returns a registerer that adds the label apiserver_id_hash with the hashed ServerID
// of a host to all metrics.
func WithServerID(registerer prometheus.Registerer, hostname string) prometheus.Registerer {
	return prometheus.WrapRegistererWith(prometheus.Labels{"apiserver_id_hash": Hash(ServerID(hostname))}, registerer)
}
