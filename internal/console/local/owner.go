package local

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// ownSocket reports whether the client's socket of a loopback connection belongs to the user of this process or
// to root. This check is necessary because the command line of the browser contains the one-time code, and
// other users of the machine can read the command line. The result is always true on systems other than Linux,
// which do not list the owners of sockets, and if this process runs as root, because it then serves browsers of
// other users.
func ownSocket(clientPort, serverPort uint16) bool {
	if os.Getuid() <= 0 {
		return true
	}
	for _, name := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		table, err := os.ReadFile(name)
		if err == nil && ownedByOther(string(table), clientPort, serverPort, os.Getuid()) {
			return false
		}
	}
	return true
}

// ownedByOther reports whether a table in the format of /proc/net/tcp contains a connection between the two
// ports that belongs to neither the user nor root. It ignores the addresses, so it also finds connections
// between the same ports at other loopback addresses.
func ownedByOther(table string, clientPort, serverPort uint16, user int) bool {
	client, server := fmt.Sprintf(":%04X", clientPort), fmt.Sprintf(":%04X", serverPort)
	for line := range strings.Lines(table) {
		// The fields are the number, the local address, the remote address, the state, three fields for queues
		// and timers, and the owner.
		fields := strings.Fields(line)
		if len(fields) < 8 || !strings.HasSuffix(fields[1], client) || !strings.HasSuffix(fields[2], server) {
			continue
		}
		if owner, err := strconv.Atoi(fields[7]); err == nil && owner != 0 && owner != user {
			return true
		}
	}
	return false
}
