package github

import "time"

// janitor does what GitHub does with time: it deletes idle registrations, ends silent sessions and
// stops waiting for runners that do not stop a cancelled job.
func (s *Server) janitor() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(s.Sweep())
		select {
		case <-timer.C:
		case <-s.kick:
		case <-s.ctx.Done():
			return
		}
	}
}

// Sweep does all that is due at Options.Now, and says when it has to be called again. The server calls it
// by itself; a test with a clock of its own calls it after moving the clock.
func (s *Server) Sweep() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, next := s.now(), time.Hour
	due := func(at time.Time) bool {
		if left := at.Sub(now); left > 0 {
			next = min(next, left)
			return false
		}
		return true
	}
	for _, r := range s.runnersByID() {
		if j := r.job; j != nil && !j.cancelled.IsZero() && due(j.cancelled.Add(forceCancelAfter)) {
			s.completeJob(j, ConclusionCancelled)
			continue
		}
		if r.session != nil && r.session.polling == 0 && due(r.session.lastSeen.Add(s.world.lostAfter)) {
			s.log.Debug("runner lost", "runner", r.name)
			s.endSession(r)
		}
		if s.world.idleDelete > 0 && r.ephemeral && r.job == nil && s.world.runners[r.id] == r && due(r.idleSince.Add(s.world.idleDelete)) {
			s.log.Debug("idle registration deleted", "runner", r.name)
			s.unregister(r)
		}
	}
	return next
}
