package local

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// ownSocket reports whether the user of this process, or root, owns the client's socket of a loopback connection. The
// command line of a browser contains the one-time code, and other users of the machine can read it. Only Linux lists the
// owners of sockets; elsewhere, the result is true. It is also true for root, which serves browsers of other users.
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

// ownedByOther reports whether a table in the format of /proc/net/tcp has a connection between the two ports that belongs
// to neither the user nor root. It ignores the addresses, so connections that use the ports at different loopback addresses
// must all belong to the user.
func ownedByOther(table string, clientPort, serverPort uint16, user int) bool {
	client, server := fmt.Sprintf(":%04X", clientPort), fmt.Sprintf(":%04X", serverPort)
	for line := range strings.Lines(table) {
		// The number, the local and the remote address, the state, three fields of queues and timers, and the owner.
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
