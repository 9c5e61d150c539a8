package telemetry

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// ServerID returns the identity of the server on a host, as kube-apiserver makes it: a
// server that is started anew, or replaced by a kube-apiserver, keeps it.
func ServerID(hostname string) string {
	var hashed []byte
	for _, part := range []string{hostname, "kube-apiserver"} {
		hashed = binary.BigEndian.AppendUint16(hashed, uint16(len(part)))
		hashed = append(hashed, part...)
	}
	sum := sha256.Sum256(hashed)
	return "apiserver-" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16]))
}

// Hash is how metrics tell what they do not show: identities, issuers, contents of files.
func Hash[T ~string | ~[]byte](of T) string {
	return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(of)))
}

// Identified registers metrics that have the server on a host in a label, as some of
// kube-apiserver's.
func Identified(registerer prometheus.Registerer, hostname string) prometheus.Registerer {
	return prometheus.WrapRegistererWith(prometheus.Labels{"apiserver_id_hash": Hash(ServerID(hostname))}, registerer)
}
