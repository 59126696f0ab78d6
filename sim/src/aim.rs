//! Brings a group into the state in which a step of the plan is to meet it.
//!
//! The steps of a plan are drawn at random, and the state of a group is what the steps before have
//! left: some pairs of fault and state would come up once in thousands of histories. So a step may
//! name its state. Operations that such a state consists of, such as a resync, are made long by
//! slow disks, and the step waits until one has begun.

use crate::{
    coverage::State,
    faults::pick,
    history::{End, Failure, Story},
    plan::Fault,
    sim_group::AT_ONCE,
};
use plinth_engine::{admin::Exchange, testing::Numbers};
use plinth_format::layout::MIB;
use std::{sync::Arc, time::Duration};

/// How often, and after what time each, it is checked whether the group has reached the state.
const LOOKS: u32 = 100;
const LOOK: Duration = Duration::from_millis(20);

impl Story {
    /// Brings a group into a state, as far as possible: without mirrors no disk is resynchronised.
    pub async fn bring_about(
        &mut self,
        g: usize,
        state: State,
        numbers: &mut Numbers,
    ) -> Result<(), Failure> {
        if self.sim_groups[g].state() == state {
            return Ok(());
        }
        self.sim_groups[g].make_whole().await?;
        if self.sim_groups[g].full {
            self.sim_groups[g].make_room().await?;
        }
        self.sim_groups[g].say(|| format!("it is to be {}", state.name()));
        let is_external = self.sim_groups[g].is_external();
        match state {
            State::Whole => return Ok(()),
            State::Full => return self.sim_groups[g].fill().await,
            State::Degraded | State::Returning if is_external => return Ok(()),
            State::Degraded => {
                Box::pin(self.inject(Fault::GroupFails, g, numbers)).await?;
                self.notice().await;
            }
            State::Returning => {
                Box::pin(self.inject(Fault::GroupFails, g, numbers)).await?;
                self.notice().await;
                self.work(20 + numbers.below(60)).await?;
                self.sim_groups[g].heal_all().await;
                self.sim_groups[g].slow_down(Duration::from_millis(20 + numbers.below(200)));
                let _ = self.sim_groups[g].ask_online().await?;
            }
            State::Recovering => {
                self.work(20 + numbers.below(60)).await?;
                self.down(g, End::Killed, AT_ONCE).await?;
                let slow = Duration::from_millis(numbers.below(60));
                self.sim_groups[g]
                    .disks
                    .iter()
                    .for_each(|disk| disk.faults(|faults| faults.slow = slow));
                self.up().await?;
            }
            State::Moving => self.move_slowly(g, numbers).await?,
        }
        for _ in 0..LOOKS {
            if self.sim_groups[g].group.is_none() || self.sim_groups[g].state() == state {
                break;
            }
            self.core.sleep(LOOK).await;
        }
        Ok(())
    }

    /// A slow disk is added, and gets its share.
    async fn move_slowly(&mut self, g: usize, numbers: &mut Numbers) -> Result<(), Failure> {
        let sim_group = &mut self.sim_groups[g];
        sim_group.part_with_former();
        let size = (48 * MIB).max(sim_group.shape.au_size * 24)
            + numbers.below(20) * sim_group.shape.au_size;
        let groups = sim_group.shape.data_groups();
        let failure_group = pick(numbers, &groups).clone();
        let new = sim_group.new_disk(&failure_group, size);
        let slow = Duration::from_millis(20 + numbers.below(60));
        sim_group.disks.last().expect("made above").faults(|faults| faults.slow = slow);
        let exchange = Exchange { add: vec![new], drop: Vec::new() };
        let group = Arc::clone(sim_group.group());
        sim_group.order(async move { Box::pin(group.exchange(exchange, Some(1))).await }).await
    }
}
