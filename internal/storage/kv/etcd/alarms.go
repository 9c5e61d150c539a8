package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// alarmInterval is the minimum time between two checks of etcd's alarms while no alarm is known. Writes of
// other clients may also raise alarms.
const alarmInterval = 5 * time.Second

// checkAlarms returns the error that corresponds to etcd's alarms: kv.ErrNoSpace, kv.ErrCorrupt or nil.
func (s *Store) checkAlarms(ctx context.Context) error {
	now := time.Now().UnixNano()
	if last := s.alarmsAt.Load(); s.alarm.Load() == nil && !s.full.Load() && last != 0 && time.Duration(now-last) < alarmInterval {
		return nil
	}
	answer, err := call(ctx, s, callSpec{name: "alarms", timeout: s.config.RequestTimeout, repeat: repeatRead}, func(ctx context.Context, _ ...grpc.CallOption) (*clientv3.AlarmResponse, error) {
		return s.client.AlarmList(ctx)
	})
	if err != nil {
		return err
	}
	var raised error
	for _, alarm := range answer.Alarms {
		raised = errors.Join(raised, alarmError(alarm))
	}
	s.alarmsAt.Store(now)
	s.full.Store(errors.Is(raised, kv.ErrNoSpace))
	if raised == nil {
		s.alarm.Store(nil)
		return nil
	}
	s.alarm.Store(&raised)
	return raised
}

func alarmError(alarm *pb.AlarmMember) error {
	switch alarm.Alarm {
	case pb.AlarmType_NOSPACE:
		return fmt.Errorf("%w: the database of member %x of etcd has reached its quota: compact, defragment, and disarm the alarm", kv.ErrNoSpace, alarm.MemberID)
	case pb.AlarmType_CORRUPT:
		return fmt.Errorf("%w: the data of member %x of etcd differs from the data of the other members: replace the member, and disarm the alarm", kv.ErrCorrupt, alarm.MemberID)
	}
	return fmt.Errorf("%w: member %x of etcd has raised the alarm %s", kv.ErrUnavailable, alarm.MemberID, alarm.Alarm)
}
