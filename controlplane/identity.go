package controlplane

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"strings"

	"mainstay.dev/mainstay/apis/bootstrap"
	"mainstay.dev/mainstay/feature"
)

// serverIdentity returns by what others know this server, nil if they do not.
func (i *instance) serverIdentity() *bootstrap.Identity {
	if !i.rows.Gates.Enabled(feature.APIServerIdentity) {
		return nil
	}
	return &bootstrap.Identity{ID: serverID(i.env.Hostname), Hostname: i.env.Hostname, PeerAddress: i.peerAddress()}
}

// serverID returns the identity of the server on a host, as kube-apiserver makes it: a
// server that is started anew, or replaced by a kube-apiserver, keeps it.
func serverID(hostname string) string {
	var hashed []byte
	for _, part := range []string{hostname, "kube-apiserver"} {
		hashed = binary.BigEndian.AppendUint16(hashed, uint16(len(part)))
		hashed = append(hashed, part...)
	}
	sum := sha256.Sum256(hashed)
	return "apiserver-" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16]))
}
