//! A stream of events (Server-Sent Events): the newest text, whenever the client has taken the one
//! before.
//!
//! hyper asks a body for more when its buffer, [`super::super::HEAD_BYTES`] large, has room. A text
//! that is longer goes in whole, and is shared by all clients: so a client that reads nothing holds
//! some small texts, or one large one, for as long as its connection may live without progress.

use super::{Published, viewers::Viewer};
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};
use tokio::sync::watch::Receiver;

type Next = Pin<Box<dyn Future<Output = (Receiver<Published>, Option<Bytes>)> + Send>>;

/// The body.
pub(in crate::http) struct Events {
    next: Next,
    /// Told that the client takes what it is sent.
    progress: Option<Box<dyn Fn() + Send>>,
    _viewer: Viewer,
}

impl Events {
    pub(super) fn new(published: Receiver<Published>, viewer: Viewer) -> Self {
        Self { next: Box::pin(next(published)), progress: None, _viewer: viewer }
    }

    /// Calls `progress` whenever there is room for the next text.
    pub(in crate::http) fn reporting(self, progress: impl Fn() + Send + 'static) -> Self {
        Self { progress: Some(Box::new(progress)), ..self }
    }
}

/// The first text of a stream; `None` if there will be none.
async fn next(mut published: Receiver<Published>) -> (Receiver<Published>, Option<Bytes>) {
    let newest = match published.wait_for(Published::is_fresh).await {
        Ok(newest) => Some(newest.event.clone()),
        Err(_) => None,
    };
    (published, newest)
}

/// As [`next`], after a text that was sent.
async fn after(mut published: Receiver<Published>) -> (Receiver<Published>, Option<Bytes>) {
    if published.changed().await.is_err() {
        return (published, None);
    }
    let newest = published.borrow_and_update().event.clone();
    (published, Some(newest))
}

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        let Poll::Ready((published, text)) = this.next.as_mut().poll(context) else {
            return Poll::Pending;
        };
        this.next = Box::pin(after(published));
        this.progress.iter().for_each(|progress| progress());
        Poll::Ready(text.map(|text| Ok(Frame::data(text))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

#[cfg(test)]
mod tests {
    use super::{super::viewers::Viewers, *};
    use http_body_util::BodyExt;
    use std::{future::poll_fn, sync::Arc};
    use tokio::{runtime::Builder, sync::watch::channel};

    /// A client that reads nothing does not make anything grow: of a thousand texts that were
    /// published meanwhile it gets the newest, once.
    #[test]
    fn a_slow_client_gets_the_newest_text_alone() {
        let (publish, published) = channel(Published::default());
        let viewer = Arc::<Viewers>::default().admit().expect("there is room");
        let mut events = Events::new(published, viewer);
        let mut take = || {
            let runtime = Builder::new_current_thread().build().expect("a runtime");
            let frame = runtime.block_on(events.frame())?.expect("no error");
            Some(frame.into_data().expect("data"))
        };
        publish.send_replace(Published::new("first".to_owned()));
        assert_eq!(take().as_deref(), Some(&b"data: first\n\n"[..]));
        let texts: Vec<Published> =
            (0..1000).map(|number| Published::new(format!("{number}"))).collect();
        for text in &texts {
            publish.send_replace(text.clone());
        }
        assert!(texts[..999].iter().all(|text| text.event.is_unique()));
        assert_eq!(take().as_deref(), Some(&b"data: 999\n\n"[..]));
        let waits =
            poll_fn(|context| Poll::Ready(Pin::new(&mut events).poll_frame(context).is_pending()));
        let runtime = Builder::new_current_thread().build().expect("a runtime");
        assert!(runtime.block_on(waits), "there is no older text left");
        drop(publish);
        let end = runtime.block_on(events.frame());
        assert!(end.is_none(), "the stream ends with its source");
    }
}
