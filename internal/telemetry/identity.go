package telemetry

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// ServerID returns the identity of the server on a host, as kube-apiserver computes it: a restarted
// server, or a kube-apiserver on the host, has the same one.
func ServerID(hostname string) string {
	var hashed []byte
	for _, part := range []string{hostname, "kube-apiserver"} {
		hashed = binary.BigEndian.AppendUint16(hashed, uint16(len(part)))
		hashed = append(hashed, part...)
	}
	sum := sha256.Sum256(hashed)
	return "apiserver-" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16]))
}

// Hash returns the hash that metrics show instead of identities, issuers and file contents.
func Hash[T ~string | ~[]byte](of T) string {
	return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(of)))
}

// Identified registers metrics that have the server on a host in a label, as some of
// kube-apiserver's.
func Identified(registerer prometheus.Registerer, hostname string) prometheus.Registerer {
	return prometheus.WrapRegistererWith(prometheus.Labels{"apiserver_id_hash": Hash(ServerID(hostname))}, registerer)
}
