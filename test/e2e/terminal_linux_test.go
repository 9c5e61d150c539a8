package e2e

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// openTerminal opens a pseudoterminal of the given size in characters, and returns both of its ends.
func openTerminal(height, width uint16) (user, program *os.File, err error) {
	if user, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		return nil, nil, err
	}
	if err := unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		return nil, nil, err
	}
	number, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	if err != nil {
		return nil, nil, err
	}
	if err := unix.IoctlSetWinsize(int(user.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: height, Col: width}); err != nil {
		return nil, nil, err
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	return user, program, err
}

// onTerminal runs a command in a terminal of the given size, and returns the output on the terminal.
func (k *kubectl) onTerminal(height, width uint16, args ...string) string {
	k.t.Helper()
	user, program, err := openTerminal(height, width)
	if err != nil {
		k.t.Fatal(err)
	}
	defer func() { _ = user.Close() }()
	c := exec.CommandContext(k.t.Context(), k.binary, append([]string{"--namespace=" + k.namespace}, args...)...)
	c.Stdin, c.Stdout, c.Stderr, c.Env = program, program, program, k.env
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := c.Start(); err != nil {
		k.t.Fatal(err)
	}
	_ = program.Close()
	seen, _ := io.ReadAll(user) // returns an error after the last process has closed the terminal
	if err := c.Wait(); err != nil {
		k.t.Errorf("kubectl %v: %v\n%s", args, err, seen)
	}
	return string(seen)
}
